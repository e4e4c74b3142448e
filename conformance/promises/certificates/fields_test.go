package certificates

import "bytes"

type deviation struct {
	name  string
	apply func(*certificate)
}

func subject(attribute, value []byte) func(*certificate) {
	return func(c *certificate) { c.subject = name(attribute, value) }
}

func serial(content ...byte) func(*certificate) {
	return func(c *certificate) { c.serial = integer(content...) }
}

func validity(times ...[]byte) func(*certificate) {
	return func(c *certificate) { c.validity = seq(times...) }
}

func algorithm(inner, outer []byte) func(*certificate) {
	return func(c *certificate) { c.algorithm, c.outer = inner, outer }
}

func version(field []byte, extensions bool) func(*certificate) {
	return func(c *certificate) { c.version, c.noExtensions = field, !extensions }
}

func numbers() []deviation {
	return []deviation{
		{"negative serial number", serial(0xff)},
		{"long negative serial number", serial(bytes.Repeat([]byte{0xf0}, 19)...)},
		{"serial number 0", serial(0)},
		{"serial number of 20 bytes", serial(bytes.Repeat([]byte{0x7f}, 20)...)},
		{"serial number of 21 bytes", serial(bytes.Repeat([]byte{0x7f}, 21)...)},
		{"serial number of 40 bytes", serial(bytes.Repeat([]byte{0x7f}, 40)...)},
		{"serial number of no byte", serial()},
		{"serial number with a byte too many", serial(0, 1)},
		{"negative serial number with a byte too many", serial(0xff, 0xff)},
		{"serial number that is a string", func(c *certificate) { c.serial = text(utf8String, "1") }},
		{"version 1", version(nil, false)},
		{"version 1, explicit", version(tlv(0xa0, integer(0)), false)},
		{"version 1 with extensions", version(nil, true)},
		{"version 2", version(tlv(0xa0, integer(1)), false)},
		{"version 2 with extensions", version(tlv(0xa0, integer(1)), true)},
		{"version 3 without extensions", version(tlv(0xa0, integer(2)), false)},
		{"version 4", version(tlv(0xa0, integer(3)), true)},
		{"version -1", version(tlv(0xa0, integer(0xff)), true)},
		{"unique IDs", func(c *certificate) { c.unique = append(tlv(0x81, []byte{0, 1}), tlv(0x82, []byte{0, 2})...) }},
		{"unique ID in version 1", func(c *certificate) {
			c.unique, c.version, c.noExtensions = tlv(0x81, []byte{0, 1}), nil, true
		}},
		{"unique ID without its bits", func(c *certificate) { c.unique = tlv(0x81) }},
	}
}

func names() []deviation {
	country, email, unknown := oid(2, 5, 4, 6), oid(1, 2, 840, 113549, 1, 9, 1), oid(1, 3, 6, 1, 4, 1, 99999, 1)
	common := seq(commonName, text(utf8String, "a.example.com"))
	return []deviation{
		{"empty subject", func(c *certificate) { c.subject = seq() }},
		{"empty subject and no name", func(c *certificate) { c.subject, c.extensions = seq(), nil }},
		{"empty issuer", func(c *certificate) { c.issuer = seq() }},
		{"subject with an empty set", func(c *certificate) { c.subject = seq(set()) }},
		{"subject with a set of two", func(c *certificate) {
			c.subject = seq(set(common, seq(country, text(printableString, "DE"))))
		}},
		{"attribute of three", func(c *certificate) {
			c.subject = seq(set(seq(commonName, text(utf8String, "a"), null)))
		}},
		{"attribute without a value", func(c *certificate) { c.subject = seq(set(seq(commonName))) }},
		{"subject that is a set", func(c *certificate) { c.subject = set(common) }},
		{"BMPString", subject(commonName, text(bmpString, "\x00a\x00b"))},
		{"BMPString of odd length", subject(commonName, text(bmpString, "\x00a\x00"))},
		{"BMPString with a surrogate", subject(commonName, text(bmpString, "\xd8\x00\xdc\x00"))},
		{"BMPString with a noncharacter", subject(commonName, text(bmpString, "\xff\xff"))},
		{"T61String", subject(commonName, text(t61String, "a\xe4"))},
		{"UniversalString", subject(commonName, text(universalString, "\x00\x00\x00a"))},
		{"UniversalString of odd length", subject(commonName, text(universalString, "\x00\x00a"))},
		{"UniversalString above Unicode", subject(commonName, text(universalString, "\x00\x11\x00\x00"))},
		{"NumericString", subject(commonName, text(numericString, "12 3"))},
		{"NumericString with a letter", subject(commonName, text(numericString, "12a"))},
		{"PrintableString with @ and *", subject(commonName, text(printableString, "*.a@b"))},
		{"PrintableString with &", subject(commonName, text(printableString, "a&b"))},
		{"PrintableString with an umlaut", subject(commonName, text(printableString, "\xe4"))},
		{"IA5String", subject(email, text(ia5String, "a@example.com"))},
		{"IA5String with an umlaut", subject(email, text(ia5String, "\xe4@example.com"))},
		{"UTF8String that is not UTF-8", subject(commonName, text(utf8String, "a\xff"))},
		{"UTF8String with a noncharacter", subject(commonName, text(utf8String, "a\uffff"))},
		{"UTF8String with a NUL", subject(commonName, text(utf8String, "a\x00b"))},
		{"UTF8String with a surrogate", subject(commonName, text(utf8String, "\xed\xa0\x80"))},
		{"VisibleString", subject(commonName, text(visibleString, "a"))},
		{"GraphicString", subject(commonName, text(0x19, "a"))},
		{"value that is an integer", subject(unknown, integer(1))},
		{"value that is NULL", subject(unknown, null)},
		{"value that is a sequence", subject(unknown, seq(integer(1)))},
		{"value that is an octet string", subject(unknown, octets([]byte("a")))},
		{"value of a private tag", subject(unknown, tlv(0xc1, []byte("a")))},
		{"value that is a boolean", subject(unknown, boolean(0xff))},
		{"value that is a bit string", subject(unknown, bits(0, 1))},
		{"value that is a constructed string", subject(commonName, tlv(0x2c, text(utf8String, "a")))},
		{"empty common name", subject(commonName, text(utf8String, ""))},
		{"long common name", subject(commonName, text(utf8String, string(bytes.Repeat([]byte("a"), 500))))},
		{"country of three letters", subject(country, text(printableString, "DEU"))},
		{"BMPString of the issuer", func(c *certificate) { c.issuer = name(commonName, text(bmpString, "\x00a")) }},
		{"attribute type of no byte", subject([]byte{0x06, 0x00}, text(utf8String, "a"))},
		{"attribute type with a byte too many", subject([]byte{0x06, 0x03, 0x55, 0x80, 0x04}, text(utf8String, "a"))},
	}
}

func times() []deviation {
	from, to := text(utcTime, "200101000000Z"), text(utcTime, "490101000000Z")
	end := func(tag byte, content string) func(*certificate) { return validity(from, text(tag, content)) }
	return []deviation{
		{"ended", validity(text(utcTime, "100101000000Z"), text(utcTime, "110101000000Z"))},
		{"end before begin", validity(to, from)},
		{"GeneralizedTime before 2050", end(generalizedTime, "20400101000000Z")},
		{"GeneralizedTime of 9999", end(generalizedTime, "99991231235959Z")},
		{"GeneralizedTime of year 0", end(generalizedTime, "00000101000000Z")},
		{"GeneralizedTime with a fraction", end(generalizedTime, "20400101000000.5Z")},
		{"GeneralizedTime without Z", end(generalizedTime, "20400101000000")},
		{"GeneralizedTime with an offset", end(generalizedTime, "20400101000000+0100")},
		{"GeneralizedTime without seconds", end(generalizedTime, "204001010000Z")},
		{"UTCTime without seconds", end(utcTime, "4901010000Z")},
		{"UTCTime without Z", end(utcTime, "490101000000")},
		{"UTCTime with an offset", end(utcTime, "490101000000+0100")},
		{"UTCTime with a negative offset", end(utcTime, "490101000000-1159")},
		{"UTCTime with an offset of a day", end(utcTime, "490101000000+2400")},
		{"UTCTime with offset 0", end(utcTime, "490101000000+0000")},
		{"UTCTime with an offset, without seconds", end(utcTime, "4901010000+0100")},
		{"UTCTime of 1950", validity(text(utcTime, "500101000000Z"), to)},
		{"month 13", end(utcTime, "491301000000Z")},
		{"month 0", end(utcTime, "490001000000Z")},
		{"30 February", end(utcTime, "490230000000Z")},
		{"29 February of no leap year", end(utcTime, "490229000000Z")},
		{"hour 24", end(utcTime, "490101240000Z")},
		{"second 60", end(utcTime, "491231235960Z")},
		{"time with a letter", end(utcTime, "4901010000x0Z")},
		{"time with a space", end(utcTime, "49010100000 Z")},
		{"time of no byte", end(utcTime, "")},
		{"time that is text", end(utf8String, "490101000000Z")},
		{"three times", validity(from, to, to)},
		{"one time", validity(from)},
	}
}

func algorithms() []deviation {
	sha1, md5 := seq(oid(1, 2, 840, 113549, 1, 1, 5), null), seq(oid(1, 2, 840, 113549, 1, 1, 4), null)
	unknown := oid(1, 3, 6, 1, 4, 1, 99999, 2)
	rsa, pss := oid(1, 2, 840, 113549, 1, 1, 11), oid(1, 2, 840, 113549, 1, 1, 10)
	return []deviation{
		{"two signature algorithms", algorithm(sha256WithRSA, ecdsaWithSHA256)},
		{"SHA-1", algorithm(sha1, nil)},
		{"MD5", algorithm(md5, nil)},
		{"unknown signature algorithm", algorithm(seq(unknown), nil)},
		{"signature algorithm without NULL", algorithm(seq(rsa), nil)},
		{"signature algorithm with NULL here and not there", algorithm(sha256WithRSA, seq(rsa))},
		{"signature algorithm with a sequence", algorithm(seq(unknown, seq(integer(1))), nil)},
		{"signature algorithm with an integer", algorithm(seq(unknown, integer(1)), nil)},
		{"signature algorithm with text", algorithm(seq(unknown, text(utf8String, "a")), nil)},
		{"signature algorithm with a private tag", algorithm(seq(unknown, tlv(0xc1, []byte{1})), nil)},
		{"signature algorithm of three", algorithm(seq(unknown, null, null), nil)},
		{"signature algorithm of none", algorithm(seq(), nil)},
		{"RSA-PSS without parameters", algorithm(seq(pss), nil)},
		{"RSA-PSS with empty parameters", algorithm(seq(pss, seq()), nil)},
		{"Ed25519 signature", algorithm(seq(oid(1, 3, 101, 112)), nil)},
		{"Ed25519 signature with NULL", algorithm(seq(oid(1, 3, 101, 112), null), nil)},
		{"signature of no bit", func(c *certificate) { c.signature = bits(0) }},
		{"signature of 7 bits", func(c *certificate) { c.signature = bits(1, 0xfe) }},
		{"signature with a set unused bit", func(c *certificate) { c.signature = bits(1, 0xff) }},
		{"signature with 8 unused bits", func(c *certificate) { c.signature = bits(8, 0) }},
		{"signature that is an octet string", func(c *certificate) { c.signature = octets([]byte{1}) }},
		{"something behind the fields", func(c *certificate) { c.more = null }},
		{"something behind the signature", func(c *certificate) { c.tail = null }},
		{"something behind the certificate", func(c *certificate) { c.after = null }},
		{"zeros behind the certificate", func(c *certificate) { c.after = []byte{0, 0} }},
	}
}

// publicKeys returns deviations in the encoding of the public key. The deviating key does not match
// the private key.
func publicKeys() []deviation {
	key := func(change func(der []byte) []byte) func(*certificate) {
		return func(c *certificate) { c.key = change(bytes.Clone(c.key)) }
	}
	rsa := oid(1, 2, 840, 113549, 1, 1, 1)
	small := func(parts ...[]byte) []byte { return bits(0, seq(parts...)...) }
	modulus := append([]byte{0}, bytes.Repeat([]byte{0xc5}, 256)...)
	return []deviation{
		{"key without NULL", key(func([]byte) []byte { return seq(seq(rsa), small(integer(modulus...), integer(3))) })},
		{
			"key with exponent 1",
			key(func([]byte) []byte { return seq(seq(rsa, null), small(integer(modulus...), integer(1))) }),
		},
		{
			"key with exponent 2",
			key(func([]byte) []byte { return seq(seq(rsa, null), small(integer(modulus...), integer(2))) }),
		},
		{
			"key with a negative modulus",
			key(func([]byte) []byte { return seq(seq(rsa, null), small(integer(0xff), integer(3))) }),
		},
		{"key with modulus 0", key(func([]byte) []byte { return seq(seq(rsa, null), small(integer(0), integer(3))) })},
		{
			"key of an unknown algorithm",
			key(func([]byte) []byte { return seq(seq(oid(1, 3, 6, 1, 4, 1, 99999, 3)), bits(0, 1)) }),
		},
		{"key of no byte", key(func([]byte) []byte { return seq() })},
		{"key with something behind", key(func(der []byte) []byte { return seq(der[headerOf(der):], null) })},
		{"key whose bits are wrong", key(func(der []byte) []byte { der[len(der)-1] ^= 1; return der })},
	}
}

func headerOf(der []byte) int {
	if der[1] < 0x80 {
		return 2
	}
	return 2 + int(der[1]&0x7f)
}
