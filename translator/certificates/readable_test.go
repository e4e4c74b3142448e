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

// damage is an authority's certificate that crypto/x509 can read.
type damage struct {
	name     string
	der      []byte
	readable bool // Envoy reads it
	vouches  bool
}

func damages(t testing.TB) []damage {
	key := newKey(t, elliptic.P256())
	good := authority(t, key, nil)
	null := asn1.NullBytes
	more := func(field int, what ...[]byte) []byte {
		return edit(t, good, func(f [][]byte) [][]byte {
			f[field] = seq(append(parts(t, f[field]), what...)...)
			return f
		})
	}
	set := func(field int, value []byte) []byte {
		return edit(t, good, func(f [][]byte) [][]byte {
			f[field] = value
			return f
		})
	}
	// algorithm replaces the signature's algorithm, which a certificate has twice.
	algorithm := func(params ...[]byte) []byte {
		whole := parts(t, good)
		fields := parts(t, whole[0])
		fields[signature] = seq(append(parts(t, fields[signature]), params...)...)
		whole[0], whole[1] = seq(fields...), fields[signature]
		return seq(whole...)
	}
	named := func(tag byte, text string, more ...[]byte) []byte {
		attribute := append([][]byte{{6, 3, 0x55, 4, 3}, tlv(tag, []byte(text))}, more...)
		return set(subject, seq(tlv(0x31, seq(attribute...))))
	}
	dates := func(tag byte, from, to string) []byte {
		return set(validity, seq(tlv(tag, []byte(from)), tlv(tag, []byte(to))))
	}
	keyed := func(bits []byte, algorithm ...[]byte) []byte {
		return set(publicKey, seq(seq(algorithm...), tlv(3, []byte{0}, bits)))
	}
	rsaKey := func(modulus *big.Int, e int64) []byte {
		body, err := asn1.Marshal(struct{ N, E *big.Int }{modulus, big.NewInt(e)})
		if err != nil {
			t.Fatal(err)
		}
		return keyed(body, []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1}, null)
	}
	odd := func(bits uint) *big.Int {
		return new(big.Int).Add(new(big.Int).Lsh(big.NewInt(3), bits-2), big.NewInt(1))
	}
	extended := func(what ...[]byte) []byte {
		return edit(t, good, func(f [][]byte) [][]byte {
			list := append(parts(t, parts(t, f[extensions])[0]), seq(what...))
			f[extensions] = tlv(0xa3, seq(list...))
			return f
		})
	}
	before := func(what ...[]byte) []byte { // in front of the extensions
		return edit(t, good, func(f [][]byte) [][]byte {
			return append(append(f[:extensions:extensions], what...), f[extensions])
		})
	}
	oid := []byte{6, 3, 0x2a, 3, 4}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsa2048, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return []damage{
		{"none", good, true, true},
		{"RSA", authority(t, rsa2048, nil), true, true},
		{"P-521", authority(t, newKey(t, elliptic.P521()), nil), true, true},
		{"an offset in UTCTime", dates(0x17, "200101000000+0100", "491231235959+0100"), true, true},
		{"GeneralizedTime too early", dates(0x18, "20200101000000Z", "20300101000000Z"), true, true},
		{"the first and the last year", dates(0x18, "00000101000000Z", "99991231235959Z"), true, true},
		{"T61String", named(0x14, "\xff\xfe"), true, true},
		{"NUL in a name", named(0x0c, "a\x00b"), true, true},
		{"no text", named(0x0c, ""), true, true},
		{"no subject", set(subject, seq()), true, true},
		{"unique IDs", before([]byte{0x81, 2, 0, 1}, []byte{0x82, 2, 0, 1}), true, true},
		{"an explicit FALSE", extended(oid, []byte{1, 1, 0}, []byte{4, 0}), true, true},

		{"something behind the dates", more(validity, null), false, false},
		{"something behind the key", more(publicKey, null), false, false},
		{"something behind the algorithm", algorithm(null, null), false, false},
		{"an unknown parameter", algorithm([]byte{5, 1, 0}), false, false},
		{"something behind the fields", edit(t, good, func(f [][]byte) [][]byte {
			return append(f, null)
		}), false, false},
		{"something behind the signature", seq(append(parts(t, good), null)...), false, false},
		{"something behind a name", named(0x0c, "x", null), false, false},
		{"a name of nothing", set(subject, seq(tlv(0x31))), false, false},
		{"a reserved code point", named(0x0c, "\uffff"), false, false},
		{"another reserved code point", named(0x0c, "\ufdd0"), false, false},
		{"extensions in version 1", edit(t, good, func(f [][]byte) [][]byte { return f[1:] }), false, false},
		{"extensions in version 2", set(version, tlv(0xa0, []byte{2, 1, 1})), false, false},
		{"an invalid unique ID", before([]byte{0x81, 2, 9, 1}), false, false},
		{"an empty unique ID", before([]byte{0x81, 0}), false, false},
		{"UTCTime without seconds", dates(0x17, "2001010000Z", "4912312359Z"), false, false},
		{"an offset in GeneralizedTime", dates(0x18, "20200101000000+0100", "20491231235959+0100"), false, false},
		{"something behind an extension", extended(oid, []byte{4, 0}, null), false, false},
		{"something behind the extensions", edit(t, good, func(f [][]byte) [][]byte {
			f[extensions] = tlv(0xa3, parts(t, f[extensions])[0], null)
			return f
		}), false, false},

		{"version 1", edit(t, good, func(f [][]byte) [][]byte { return f[1:extensions] }), true, false},
		{"no extensions", edit(t, good, func(f [][]byte) [][]byte { return f[:extensions] }), true, false},
		{"a serial number of 100 bytes", set(serial, tlv(2, []byte{1}, make([]byte, 99))), true, false},
		{"dates in reverse", dates(0x17, "300101000000Z", "200101000000Z"), true, false},
		{"an unknown critical extension", extended(oid, []byte{1, 1, 255}, []byte{4, 0}), true, false},
		{"P-224", authority(t, newKey(t, elliptic.P224()), nil), true, false},
		{"Ed25519", authority(t, ed, nil), true, false},
		{"Ed448", keyed(make([]byte, 57), []byte{6, 3, 0x2b, 0x65, 0x71}), true, false},
		{"an unknown key", keyed([]byte{1}, oid, null), true, false},
		{"RSA of 1,024 bits", rsaKey(odd(1024), 65537), true, false},
		{"RSA of 17,000 bits", rsaKey(odd(17000), 65537), true, false},
		{"RSA with an even exponent", rsaKey(odd(2048), 4), true, false},
		{"a leaf", authority(t, key, func(c *x509.Certificate) { c.IsCA = false }), true, false},
		{"a key that may not sign", authority(t, key, func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageDigitalSignature
		}), true, false},
		{"a long subject", named(0x0c, strings.Repeat("a", 5000)), true, false},
	}
}

// Each bundle goes to a freshly started Envoy, as a member's bundle and as a user's.
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
			t.Errorf("%s: readable: %v", d.name, err)
		}
		if err := certificates.Vouches(c); (err == nil) != d.vouches {
			t.Errorf("%s: vouches: %v", d.name, err)
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
