package jwks

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

const (
	maxKeys = 64
	// maxTried bounds how many keys are tried for a token that does not name its key (kid).
	maxTried = 8
	// minRSABits is the least size of an RSA key (RFC 7518, section 3.3).
	minRSABits = 2048
)

// Set has an issuer's public keys. It is immutable.
type Set struct{ keys []key }

type key struct {
	id, algorithm string // kid and alg; "" if absent
	public        any
}

// Parse reads a JSON Web Key Set. It ignores keys that verify no signatures of tokens: private and
// symmetric keys, keys for encryption, and unsupported types (RFC 7517, section 5). It fails if no
// key is left.
func Parse(text []byte) (*Set, error) {
	var doc struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, errors.New("it is no JSON object with a list of keys")
	}
	if len(doc.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, more than %d", len(doc.Keys), maxKeys)
	}
	out := &Set{}
	for _, raw := range doc.Keys {
		if k, ok := parseKey(raw); ok {
			out.keys = append(out.keys, k)
		}
	}
	if len(out.keys) == 0 {
		return nil, fmt.Errorf("none of its %d keys is a public key for signatures: RSA of %d to %d bits, EC on "+
			"P-256, P-384 or P-521, or Ed25519", len(doc.Keys), minRSABits, jose.MaxRSAModulusBits)
	}
	return out, nil
}

func parseKey(raw []byte) (key, bool) {
	var k jose.JSONWebKey
	if err := k.UnmarshalJSON(raw); err != nil || k.Use != "" && k.Use != "sig" || !k.Valid() {
		return key{}, false
	}
	switch public := k.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < minRSABits {
			return key{}, false
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return key{}, false
	}
	return key{k.KeyID, k.Algorithm, k.Key}, true
}

// Algorithms are the signature algorithms of tokens. All are asymmetric: with a symmetric one, an
// attacker could sign tokens with the public key as the secret.
func Algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256,
		jose.ES384, jose.ES512, jose.EdDSA}
}

// Find returns the keys that may have signed a token with the headers kid (id) and alg (algorithm).
// known is false if no key of the set has this id. A newer set may have the key.
func (s *Set) Find(id, algorithm string) (keys []any, known bool) {
	known = id == ""
	for _, k := range s.keys {
		known = known || k.id == id
		if (id == "" || k.id == "" || k.id == id) && k.fits(algorithm) && len(keys) < maxTried {
			keys = append(keys, k.public)
		}
	}
	return keys, known
}

func (k key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES") // go-jose checks that the curve fits the algorithm
	}
	return algorithm == string(jose.EdDSA)
}
