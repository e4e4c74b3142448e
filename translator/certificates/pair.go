package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Pair is a certificate chain with the private key of its first certificate.
type Pair struct {
	Chain []*x509.Certificate
	Key   crypto.PrivateKey
}

// ReadPair reads a chain and a key in PEM as Envoy does. It does not check whether Envoy can serve
// with the key.
func ReadPair(chain, key []byte) (*Pair, error) {
	blocks := Blocks(chain)
	if len(blocks) == 0 {
		return nil, errors.New("there is no certificate in PEM")
	}
	p := &Pair{}
	for i, der := range blocks {
		c, err := Read(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read by Envoy: %w", i+1, err)
		}
		p.Chain = append(p.Chain, c)
	}
	public, ok := p.Chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, errors.New("the public key of the first certificate is of an unknown kind")
	}
	for rest := key; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("there is no private key in PEM")
		}
		if block.Type != "PRIVATE KEY" && !strings.HasSuffix(block.Type, " PRIVATE KEY") {
			continue
		}
		private, err := privateKey(block, public)
		if err != nil {
			return nil, err
		}
		if p.Key = private; !public.Equal(private.Public()) {
			return nil, errors.New("the private key does not match the first certificate")
		}
		return p, nil
	}
}

func privateKey(block *pem.Block, public any) (crypto.Signer, error) {
	if strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "" {
		return nil, errors.New("the private key is encrypted, and nothing has its password: write it without one")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return twoPrimes(key)
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		switch k := key.(type) {
		case *rsa.PrivateKey:
			return twoPrimes(k)
		case crypto.Signer:
			return k, nil
		}
		return nil, errors.New("the private key is of a kind that does not sign")
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if certified, ok := public.(*ecdsa.PublicKey); ok {
		if key, err := explicitCurve(block.Bytes, certified); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("the private key cannot be read: write it as PKCS #8")
}

func twoPrimes(key *rsa.PrivateKey) (crypto.Signer, error) {
	if len(key.Primes) != 2 {
		return nil, fmt.Errorf("the RSA key has %d primes, and Envoy reads keys of two: make another", len(key.Primes))
	}
	return key, nil
}

func explicitCurve(der []byte, public *ecdsa.PublicKey) (*ecdsa.PrivateKey, error) {
	var k struct {
		Version    int
		Private    []byte
		Parameters asn1.RawValue  `asn1:"optional,explicit,tag:0"`
		Public     asn1.BitString `asn1:"optional,explicit,tag:1"`
	}
	if _, err := asn1.Unmarshal(der, &k); err != nil {
		return nil, err
	}
	return ecdsa.ParseRawPrivateKey(public.Curve, k.Private)
}
