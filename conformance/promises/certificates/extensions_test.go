package certificates

func with(extension []byte) func(*certificate) {
	return func(c *certificate) { c.extensions = append(c.extensions, extension) }
}

func instead(extensions ...[]byte) func(*certificate) {
	return func(c *certificate) { c.extensions = extensions }
}

func alternative(names ...[]byte) func(*certificate) {
	return instead(extension(altName, seq(names...)))
}

func lists() []deviation {
	unknown := oid(1, 3, 6, 1, 4, 1, 99999, 4)
	name := extension(altName, seq(text(0x82, "a.example.com")))
	return []deviation{
		{"unknown extension", with(extension(unknown, null))},
		{"unknown critical extension", with(critical(unknown, null))},
		{"unknown extension that is no DER", with(extension(unknown, []byte{1, 2, 3}))},
		{"empty extension", with(extension(unknown, nil))},
		{"extension twice", with(name)},
		{"unknown extension twice", func(c *certificate) {
			c.extensions = append(c.extensions, extension(unknown, null), extension(unknown, null))
		}},
		{"no extension in the list", instead()},
		{"extension that is explicitly not critical", with(seq(unknown, boolean(0), octets(null)))},
		{"critical with another value", with(seq(unknown, boolean(1), octets(null)))},
		{"critical of two bytes", with(seq(unknown, boolean(0xff, 0xff), octets(null)))},
		{"critical of no byte", with(seq(unknown, boolean(), octets(null)))},
		{"extension without a value", with(seq(unknown))},
		{"extension of four", with(seq(unknown, boolean(0xff), octets(null), null))},
		{"extension with another thing in the middle", with(seq(unknown, null, octets(null)))},
		{"extension whose value is no octet string", with(seq(unknown, null))},
		{"extension that is a set", with(set(unknown, octets(null)))},
		{"extension without a type", with(seq(octets(null)))},
		{"something in the list", with(null)},
	}
}

func constraints() []deviation {
	basic := func(parts ...[]byte) func(*certificate) { return instead(critical(basicConstraints, seq(parts...))) }
	usage := func(value []byte) func(*certificate) {
		return instead(critical(keyUsage, value), extension(altName, seq(text(0x82, "a.example.com"))))
	}
	extended := oid(2, 5, 29, 37)
	return []deviation{
		{"basic constraints: none", basic()},
		{"basic constraints: no CA, explicit", basic(boolean(0))},
		{"basic constraints: CA", basic(boolean(0xff))},
		{"basic constraints: CA with 1", basic(boolean(1))},
		{"basic constraints: path length", basic(boolean(0xff), integer(0))},
		{"basic constraints: negative path length", basic(boolean(0xff), integer(0xff))},
		{"basic constraints: long path length", basic(boolean(0xff), integer(1, 2, 3, 4, 5, 6, 7, 8, 9))},
		{"basic constraints: path length without CA", basic(integer(1))},
		{"basic constraints: something behind", basic(boolean(0xff), integer(1), null)},
		{"basic constraints: no sequence", instead(critical(basicConstraints, null))},
		{"basic constraints: no byte", instead(critical(basicConstraints, nil))},
		{"basic constraints: something behind the sequence",
			instead(critical(basicConstraints, append(seq(), null...)))},
		{"key usage: digitalSignature", usage(bits(7, 0x80))},
		{"key usage: keyEncipherment", usage(bits(5, 0x20))},
		{"key usage: keyAgreement", usage(bits(3, 0x08))},
		{"key usage: certificates and revocations", usage(bits(1, 0x06))},
		{"key usage: none", usage(bits(0))},
		{"key usage: zero bits", usage(bits(0, 0))},
		{"key usage: zeros at the end", usage(bits(0, 0x80))},
		{"key usage: nine bits", usage(bits(7, 0x80, 0x80))},
		{"key usage: set unused bits", usage(bits(7, 0xff))},
		{"key usage: an integer", usage(integer(1))},
		{"key usage: no byte", usage(nil)},
		{"key usage: something behind", usage(append(bits(7, 0x80), null...))},
		{"extended key usage: servers", with(extension(extended, seq(oid(1, 3, 6, 1, 5, 5, 7, 3, 1))))},
		{"extended key usage: clients", with(extension(extended, seq(oid(1, 3, 6, 1, 5, 5, 7, 3, 2))))},
		{"extended key usage: unknown", with(critical(extended, seq(oid(1, 3, 6, 1, 4, 1, 99999, 5))))},
		{"extended key usage: none", with(extension(extended, seq()))},
		{"extended key usage: text", with(extension(extended, seq(text(utf8String, "a"))))},
		{"extended key usage: no sequence", with(extension(extended, null))},
	}
}

func alternatives() []deviation {
	return []deviation{
		{"name: none in the list", alternative()},
		{"name: an IPv4 address", alternative(tlv(0x87, []byte{127, 0, 0, 1}))},
		{"name: an IPv6 address", alternative(tlv(0x87, make([]byte, 16)))},
		{"name: an address of 5 bytes", alternative(tlv(0x87, make([]byte, 5)))},
		{"name: an address of no byte", alternative(tlv(0x87))},
		{"name: a URI", alternative(text(0x86, "spiffe://example.com/a"))},
		{"name: a relative URI", alternative(text(0x86, "a"))},
		{"name: a URI that cannot be parsed", alternative(text(0x86, "http://[::1"))},
		{"name: a URI with a bad escape", alternative(text(0x86, "http://a/%zz"))},
		{"name: a URI whose host is no name", alternative(text(0x86, "http://a b/"))},
		{"name: a URI with an umlaut", alternative(text(0x86, "http://\xe4/"))},
		{"name: a wildcard", alternative(text(0x82, "*.example.com"))},
		{"name: wildcards", alternative(text(0x82, "*.*"))},
		{"name: of no byte", alternative(text(0x82, ""))},
		{"name: a dot", alternative(text(0x82, "."))},
		{"name: a space", alternative(text(0x82, " "))},
		{"name: an underscore", alternative(text(0x82, "a_b.example.com"))},
		{"name: with an umlaut", alternative(text(0x82, "\xe4.example.com"))},
		{"name: with a NUL", alternative(text(0x82, "a\x00b"))},
		{"name: long", alternative(text(0x82, string(make300())))},
		{"name: a mail address", alternative(text(0x81, "a@example.com"))},
		{"name: a bad mail address", alternative(text(0x81, "a"))},
		{"name: a mail address with an umlaut", alternative(text(0x81, "\xe4@a"))},
		{
			"name: another name",
			alternative(tlv(0xa0, oid(1, 3, 6, 1, 4, 1, 99999, 6), tlv(0xa0, text(utf8String, "a")))),
		},
		{"name: another name without a value", alternative(tlv(0xa0, oid(1, 3, 6, 1, 4, 1, 99999, 6)))},
		{"name: a directory name", alternative(tlv(0xa4, name(commonName, text(utf8String, "a"))))},
		{"name: a broken directory name", alternative(tlv(0xa4, null))},
		{"name: an X.400 address", alternative(tlv(0xa3, seq()))},
		{"name: an EDI party", alternative(tlv(0xa5, tlv(0xa1, text(utf8String, "a"))))},
		{"name: an OID", alternative(tlv(0x88, []byte{0x2a, 0x03}))},
		{"name: a broken OID", alternative(tlv(0x88, []byte{0x80}))},
		{"name: of an unknown kind", alternative(tlv(0x89, []byte("a")))},
		{"name: a constructed one", alternative(tlv(0xa2, text(ia5String, "a")))},
		{"name: text", alternative(text(utf8String, "a.example.com"))},
		{"name: no sequence", instead(extension(altName, null))},
		{"name: no byte", instead(extension(altName, nil))},
		{"name: something behind", instead(extension(altName, append(seq(text(0x82, "a")), null...)))},
		{"name: critical", instead(critical(altName, seq(text(0x82, "a.example.com"))))},
	}
}

func make300() []byte {
	out := make([]byte, 300)
	for i := range out {
		out[i] = 'a'
	}
	return out
}

func others() []deviation {
	authorityKey, subjectKey, policies, points := oid(2, 5, 29, 35), oid(2, 5, 29, 14), oid(2, 5, 29, 32),
		oid(2, 5, 29, 31)
	limits, access, feature := oid(2, 5, 29, 30), oid(1, 3, 6, 1, 5, 5, 7, 1, 1), oid(1, 3, 6, 1, 5, 5, 7, 1, 24)
	mappings, inhibit, demand := oid(2, 5, 29, 33), oid(2, 5, 29, 54), oid(2, 5, 29, 36)
	timestamps, issuer := oid(1, 3, 6, 1, 4, 1, 11129, 2, 4, 2), oid(2, 5, 29, 18)
	subtree := func(name []byte) []byte { return seq(tlv(0xa0, seq(name))) }
	uri := text(0x86, "http://a/")
	return []deviation{
		{"authority key", with(extension(authorityKey, seq(tlv(0x80, []byte{1}))))},
		{"authority key: none", with(extension(authorityKey, seq()))},
		{"authority key: issuer and serial number", with(extension(authorityKey,
			seq(tlv(0xa1, tlv(0xa4, name(commonName, text(utf8String, "a")))), tlv(0x82, []byte{1}))))},
		{"authority key: critical", with(critical(authorityKey, seq(tlv(0x80, []byte{1}))))},
		{"authority key: no sequence", with(extension(authorityKey, null))},
		{"authority key: something in it", with(extension(authorityKey, seq(null)))},
		{"subject key", with(extension(subjectKey, octets([]byte{1})))},
		{"subject key: no byte", with(extension(subjectKey, octets()))},
		{"subject key: critical", with(critical(subjectKey, octets([]byte{1})))},
		{"subject key: no octet string", with(extension(subjectKey, null))},
		{"subject key: something behind", with(extension(subjectKey, append(octets([]byte{1}), null...)))},
		{"policies", with(extension(policies, seq(seq(oid(1, 2, 3)))))},
		{"policies: none", with(extension(policies, seq()))},
		{"policies: one twice", with(extension(policies, seq(seq(oid(1, 2, 3)), seq(oid(1, 2, 3)))))},
		{"policies: text", with(extension(policies, seq(text(utf8String, "a"))))},
		{"policies: critical", with(critical(policies, seq(seq(oid(1, 2, 3)))))},
		{"policy mappings", with(critical(mappings, seq(seq(oid(1, 2, 3), oid(1, 2, 4)))))},
		{"policy mappings: broken", with(critical(mappings, null))},
		{"inhibit any policy", with(critical(inhibit, integer(1)))},
		{"inhibit any policy: negative", with(critical(inhibit, integer(0xff)))},
		{"policy constraints", with(critical(demand, seq(tlv(0x80, []byte{0}))))},
		{"policy constraints: none", with(critical(demand, seq()))},
		{"distribution points", with(extension(points, seq(seq(tlv(0xa0, tlv(0xa0, uri))))))},
		{"distribution points: none", with(extension(points, seq()))},
		{"distribution points: broken", with(extension(points, null))},
		{"distribution points: text", with(extension(points, seq(seq(text(utf8String, "a")))))},
		{"name constraints: a name", with(critical(limits, subtree(seq(text(0x82, "example.com")))))},
		{
			"name constraints: addresses",
			with(critical(limits, subtree(seq(tlv(0x87, []byte{10, 0, 0, 0, 255, 0, 0, 0}))))),
		},
		{
			"name constraints: a bad mask",
			with(critical(limits, subtree(seq(tlv(0x87, []byte{10, 0, 0, 0, 255, 0, 255, 0}))))),
		},
		{"name constraints: an address without a mask",
			with(critical(limits, subtree(seq(tlv(0x87, []byte{10, 0, 0, 0})))))},
		{"name constraints: a bad name", with(critical(limits, subtree(seq(text(0x82, "*.a")))))},
		{"name constraints: a URI", with(critical(limits, subtree(seq(text(0x86, "example.com")))))},
		{"name constraints: a URI with an address", with(critical(limits, subtree(seq(text(0x86, "127.0.0.1")))))},
		{"name constraints: a mail address", with(critical(limits, subtree(seq(text(0x81, "a@b")))))},
		{
			"name constraints: a directory name",
			with(critical(limits, subtree(seq(tlv(0xa4, name(commonName, text(utf8String, "a"))))))),
		},
		{"name constraints: a minimum", with(critical(limits, subtree(seq(text(0x82, "a"), tlv(0x80, []byte{1})))))},
		{"name constraints: none", with(critical(limits, seq()))},
		{"name constraints: no sequence", with(critical(limits, null))},
		{"name constraints: not critical", with(extension(limits, subtree(seq(text(0x82, "example.com")))))},
		{"access", with(extension(access, seq(seq(oid(1, 3, 6, 1, 5, 5, 7, 48, 1), uri))))},
		{"access: none", with(extension(access, seq()))},
		{"access: critical", with(critical(access, seq(seq(oid(1, 3, 6, 1, 5, 5, 7, 48, 1), uri))))},
		{"access: no sequence", with(extension(access, null))},
		{"access: of one", with(extension(access, seq(seq(oid(1, 3, 6, 1, 5, 5, 7, 48, 1)))))},
		{
			"access: text for a URI",
			with(extension(access, seq(seq(oid(1, 3, 6, 1, 5, 5, 7, 48, 1), text(utf8String, "a"))))),
		},
		{"must-staple", with(extension(feature, seq(integer(5))))},
		{"must-staple: another feature", with(extension(feature, seq(integer(17))))},
		{"must-staple: two features", with(extension(feature, seq(integer(17), integer(5))))},
		{"must-staple: none", with(extension(feature, seq()))},
		{"must-staple: broken", with(extension(feature, null))},
		{"timestamps", with(extension(timestamps, octets([]byte{0, 0})))},
		{"timestamps: broken", with(extension(timestamps, null))},
		{"name of the issuer", with(extension(issuer, seq(text(0x82, "a"))))},
		{"name of the issuer: broken", with(extension(issuer, null))},
	}
}

func deviations() (out []deviation) {
	for _, list := range []func() []deviation{
		numbers, names, times, algorithms, publicKeys, lists, constraints, alternatives, others,
	} {
		out = append(out, list()...)
	}
	return out
}
