package certificates_test

import (
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/certificates"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// damage is a damaged certificate that crypto/x509 can read.
type damage struct {
	name     string
	der      []byte
	readable bool
	vouches  bool
}

type forger struct {
	t    testing.TB
	good []byte
}

func (f *forger) edit(change func([][]byte) [][]byte) []byte { return edit(f.t, f.good, change) }

func (f *forger) more(field int, what ...[]byte) []byte {
	return f.edit(func(list [][]byte) [][]byte {
		list[field] = seq(append(parts(f.t, list[field]), what...)...)
		return list
	})
}

func (f *forger) set(field int, value []byte) []byte {
	return f.edit(func(list [][]byte) [][]byte {
		list[field] = value
		return list
	})
}

// algorithm adds parameters to the signature's algorithm, in both of its places in the certificate.
func (f *forger) algorithm(params ...[]byte) []byte {
	whole := parts(f.t, f.good)
	fields := parts(f.t, whole[0])
	fields[signature] = seq(append(parts(f.t, fields[signature]), params...)...)
	whole[0], whole[1] = seq(fields...), fields[signature]
	return seq(whole...)
}

func (f *forger) named(tag byte, text string, more ...[]byte) []byte {
	attribute := append([][]byte{{6, 3, 0x55, 4, 3}, tlv(tag, []byte(text))}, more...)
	return f.set(subject, seq(tlv(0x31, seq(attribute...))))
}

func (f *forger) dates(tag byte, from, to string) []byte {
	return f.set(validity, seq(tlv(tag, []byte(from)), tlv(tag, []byte(to))))
}

func (f *forger) keyed(bits []byte, algorithm ...[]byte) []byte {
	return f.set(publicKey, seq(seq(algorithm...), tlv(3, []byte{0}, bits)))
}

// rsaKey has an odd modulus.
func (f *forger) rsaKey(bits uint, e int64) []byte {
	modulus := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(3), bits-2), big.NewInt(1))
	body, err := asn1.Marshal(struct{ N, E *big.Int }{modulus, big.NewInt(e)})
	if err != nil {
		f.t.Fatal(err)
	}
	return f.keyed(body, []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1}, asn1.NullBytes)
}

func (f *forger) extended(what ...[]byte) []byte {
	return f.edit(func(fields [][]byte) [][]byte {
		list := append(parts(f.t, parts(f.t, fields[extensions])[0]), seq(what...))
		fields[extensions] = tlv(0xa3, seq(list...))
		return fields
	})
}

func (f *forger) before(what ...[]byte) []byte {
	return f.edit(func(list [][]byte) [][]byte {
		return append(append(list[:extensions:extensions], what...), list[extensions])
	})
}

func damages(t testing.TB) []damage {
	key, null, oid := newKey(t, elliptic.P256()), asn1.NullBytes, []byte{6, 3, 0x2a, 3, 4}
	f := &forger{t, authority(t, key, nil)}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa2048, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return []damage{
		{"none", f.good, true, true},
		{"RSA", authority(t, rsa2048, nil), true, true},
		{"P-521", authority(t, newKey(t, elliptic.P521()), nil), true, true},
		{"an offset in UTCTime", f.dates(0x17, "200101000000+0100", "491231235959+0100"), true, true},
		{"GeneralizedTime too early", f.dates(0x18, "20200101000000Z", "20300101000000Z"), true, true},
		{"the first and the last year", f.dates(0x18, "00000101000000Z", "99991231235959Z"), true, true},
		{"T61String", f.named(0x14, "\xff\xfe"), true, true},
		{"NUL in a name", f.named(0x0c, "a\x00b"), true, true},
		{"no text", f.named(0x0c, ""), true, true},
		{"no subject", f.set(subject, seq()), true, true},
		{"unique IDs", f.before([]byte{0x81, 2, 0, 1}, []byte{0x82, 2, 0, 1}), true, true},
		{"an explicit FALSE", f.extended(oid, []byte{1, 1, 0}, []byte{4, 0}), true, true},

		{"something behind the dates", f.more(validity, null), false, false},
		{"something behind the key", f.more(publicKey, null), false, false},
		{"something behind the algorithm", f.algorithm(null, null), false, false},
		{"an unknown parameter", f.algorithm([]byte{5, 1, 0}), false, false},
		{"something behind the fields", f.edit(func(list [][]byte) [][]byte {
			return append(list, null)
		}), false, false},
		{"something behind the signature", seq(append(parts(t, f.good), null)...), false, false},
		{"something behind a name", f.named(0x0c, "x", null), false, false},
		{"a name of nothing", f.set(subject, seq(tlv(0x31))), false, false},
		{"a reserved code point", f.named(0x0c, "\uffff"), false, false},
		{"another reserved code point", f.named(0x0c, "\ufdd0"), false, false},
		{"extensions in version 1", f.edit(func(list [][]byte) [][]byte { return list[1:] }), false, false},
		{"extensions in version 2", f.set(version, tlv(0xa0, []byte{2, 1, 1})), false, false},
		{"an invalid unique ID", f.before([]byte{0x81, 2, 9, 1}), false, false},
		{"an empty unique ID", f.before([]byte{0x81, 0}), false, false},
		{"UTCTime without seconds", f.dates(0x17, "2001010000Z", "4912312359Z"), false, false},
		{"an offset in GeneralizedTime", f.dates(0x18, "20200101000000+0100", "20491231235959+0100"), false, false},
		{"something behind an extension", f.extended(oid, []byte{4, 0}, null), false, false},
		{"something behind the extensions", f.edit(func(list [][]byte) [][]byte {
			list[extensions] = tlv(0xa3, parts(t, list[extensions])[0], null)
			return list
		}), false, false},

		{"version 1", f.edit(func(list [][]byte) [][]byte { return list[1:extensions] }), true, false},
		{"no extensions", f.edit(func(list [][]byte) [][]byte { return list[:extensions] }), true, false},
		{"a serial number of 100 bytes", f.set(serial, tlv(2, []byte{1}, make([]byte, 99))), true, false},
		{"dates in reverse", f.dates(0x17, "300101000000Z", "200101000000Z"), true, false},
		{"an unknown critical extension", f.extended(oid, []byte{1, 1, 255}, []byte{4, 0}), true, false},
		{"P-224", authority(t, newKey(t, elliptic.P224()), nil), true, false},
		{"Ed25519", authority(t, ed, nil), true, false},
		{"Ed448", f.keyed(make([]byte, 57), []byte{6, 3, 0x2b, 0x65, 0x71}), true, false},
		{"an unknown key", f.keyed([]byte{1}, oid, null), true, false},
		{"RSA of 1,024 bits", f.rsaKey(1024, 65537), true, false},
		{"RSA of 17,000 bits", f.rsaKey(17000, 65537), true, false},
		{"RSA with an even exponent", f.rsaKey(2048, 4), true, false},
		{"a leaf", authority(t, key, func(c *x509.Certificate) { c.IsCA = false }), true, false},
		{"a key that may not sign", authority(t, key, func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageDigitalSignature
		}), true, false},
		{"a long subject", f.named(0x0c, strings.Repeat("a", 5000)), true, false},
	}
}

// Envoy gets each certificate as a CA, and in a SPIFFE trust domain.
func TestReadable_JudgesAsEnvoyDoes(t *testing.T) {
	key := newKey(t, elliptic.P256())
	leaf := encodePEM(authority(t, key, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.DNSNames = false, 0, []string{"x"}
	}))
	private := privatePEM(t, key)
	rejects := func(bundles ...[]byte) string {
		var chains []string
		for i, b := range bundles {
			trust := fmt.Sprintf(`{"trusted_ca": {"inline_string": %q}}`, b)
			chains = append(chains, fmt.Sprintf(chain, i, leaf, private, trust),
				fmt.Sprintf(chain, i+len(bundles), leaf, private, fmt.Sprintf(spiffe, b)))
		}
		return envoytest.Validate(t, fmt.Appendf(nil, `{"static_resources": {"listeners": [{"name": "l",
			"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}, 
			"filter_chains": [%s]}]}}`, strings.Join(chains, ",")))
	}
	var readable [][]byte
	for _, d := range damages(t) {
		c, err := x509.ParseCertificate(d.der)
		if err != nil {
			t.Fatalf("%s: crypto/x509: %v", d.name, err)
		}
		if err := certificates.Readable(c); (err == nil) != d.readable {
			t.Errorf("%s: got %v, want readable: %t", d.name, err, d.readable)
		}
		if err := certificates.Vouches(c); (err == nil) != d.vouches {
			t.Errorf("%s: got %v, want vouches: %t", d.name, err, d.vouches)
		}
		if d.readable {
			readable = append(readable, encodePEM(d.der))
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			if rejects(encodePEM(d.der)) == "" {
				t.Error("Envoy reads it")
			}
		})
	}
	if problem := rejects(readable...); problem != "" {
		t.Error(problem)
	}
}

const (
	chain = `{"filter_chain_match": {"server_names": ["%d.test"]}, "filters": [{"name": "echo", "typed_config": {
		"@type": "type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo"}}],
		"transport_socket": {"name": "tls", "typed_config": {
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"common_tls_context": {"tls_certificates": [
		{"certificate_chain": {"inline_string": %q}, "private_key": {"inline_string": %q}}],
		"validation_context": %s}}}}`
	spiffe = `{"custom_validator_config": {"name": "envoy.tls.cert_validator.spiffe", "typed_config": {
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig",
		"trust_domains": [{"name": "a", "trust_bundle": {"inline_string": %q}}]}}}`
)
