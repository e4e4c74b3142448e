package jwks_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/authz/jwks"
)

type jwk map[string]string

func edKey(id string) jwk {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return jwk{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64.RawURLEncoding.EncodeToString(public)}
}

func ecKey(id string) jwk {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	return jwk{"kty": "EC", "crv": "P-256", "kid": id, "x": encode(point[1:33]), "y": encode(point[33:])}
}

func rsaKey(id string, bits int) jwk {
	n := bytes.Repeat([]byte{0xff}, bits/8)
	return jwk{"kty": "RSA", "kid": id, "e": "AQAB", "n": base64.RawURLEncoding.EncodeToString(n)}
}

func (k jwk) with(name, value string) jwk {
	k[name] = value
	return k
}

func set(keys ...jwk) []byte {
	out, err := json.Marshal(map[string]any{"keys": keys})
	if err != nil {
		panic(err)
	}
	return out
}

// Parse ignores each key that is no public key for signatures, and keeps the set's other keys.
func TestSet_HasOnlyPublicKeysForSignatures(t *testing.T) {
	for name, k := range map[string]jwk{
		"for encryption": ecKey("other").with("use", "enc"),
		"symmetric":      {"kty": "oct", "kid": "other", "k": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
		"private":        edKey("other").with("d", "AAAA"),
		"of 1024 bits":   rsaKey("other", 1024),
		"of 8192 bits":   rsaKey("other", 8192),
		"of no type":     {"kid": "other"},
		"off its curve":  ecKey("other").with("x", strings.Repeat("A", 43)),
		"of X25519":      edKey("other").with("crv", "X25519"),
	} {
		if _, err := jwks.Parse(set(k)); err == nil || !strings.Contains(err.Error(), "none of its 1 keys") {
			t.Errorf(`%s alone: got %v, want "none of its 1 keys"`, name, err)
		}
		s, err := jwks.Parse(set(k, edKey("good")))
		if err != nil {
			t.Errorf("%s beside a good key: got %v, want no error", name, err)
			continue
		}
		for _, algorithm := range jwks.Algorithms() {
			if keys, known := s.Find("other", string(algorithm)); len(keys) > 0 || known {
				t.Errorf("the key %s verifies %s, want no use of it", name, algorithm)
			}
		}
		if keys, known := s.Find("good", "EdDSA"); len(keys) != 1 || !known {
			t.Errorf("%s: the other key is lost", name)
		}
	}
}

func TestSet_KeyVerifiesAlgorithmsOfItsTypeAlone(t *testing.T) {
	s, err := jwks.Parse(set(rsaKey("rsa", 2048), rsaKey("pss", 3072).with("alg", "PS256"), ecKey("ec"), edKey("ed"),
		edKey("signs").with("use", "sig")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id, algorithm string
		want          int
		known         bool
	}{
		{"rsa", "RS256", 1, true}, {"rsa", "PS512", 1, true}, {"rsa", "ES256", 0, true}, {"rsa", "EdDSA", 0, true},
		{"pss", "RS256", 0, true}, {"pss", "PS256", 1, true}, {"ec", "ES256", 1, true}, {"ec", "RS256", 0, true},
		{"ed", "EdDSA", 1, true}, {"ed", "HS256", 0, true}, {"ed", "", 0, true}, {"signs", "EdDSA", 1, true},
		{"", "EdDSA", 2, true}, {"unknown", "EdDSA", 0, false},
	} {
		if keys, known := s.Find(c.id, c.algorithm); len(keys) != c.want || known != c.known {
			t.Errorf("%s %s: got %d keys, known %v; want %d, %v", c.id, c.algorithm, len(keys), known, c.want, c.known)
		}
	}
}

func TestSet_IsBounded(t *testing.T) {
	var many []jwk
	for i := range 65 {
		many = append(many, rsaKey(fmt.Sprint(i), 2048))
	}
	if _, err := jwks.Parse(set(many...)); err == nil {
		t.Error("65 keys are accepted")
	}
	s, err := jwks.Parse(set(many[:64]...))
	if err != nil {
		t.Fatal(err)
	}
	if keys, _ := s.Find("", "RS256"); len(keys) != 8 {
		t.Errorf("a token without a key's ID is verified with %d keys, want 8", len(keys))
	}
	for _, text := range []string{"", "null", "{}", "[]", "<html>", `{"keys": {}}`, `{"keys": [1, "x", null]}`} {
		if _, err := jwks.Parse([]byte(text)); err == nil {
			t.Errorf("%q is a set, want an error", text)
		}
	}
}

func FuzzParse_FindsKeysOrFails(f *testing.F) {
	f.Add(set(edKey("a"), ecKey("b")))
	f.Add([]byte(`{"keys": [{"kty": "RSA", "n": "", "e": "AQAB", "x5c": [""]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := jwks.Parse(text)
		if (s == nil) == (err == nil) {
			t.Fatal(s, err)
		}
		if s != nil {
			s.Find("a", "ES256")
			s.Find("", "RS256")
		}
	})
}
