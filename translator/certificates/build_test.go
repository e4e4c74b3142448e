package certificates_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// The functions in this file build and damage CA certificates element by element. No test verifies
// the certificates' signatures.

func newKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func authority(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "penstock"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func tlv(tag byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	raw := asn1.RawValue{Class: int(tag >> 6), Tag: int(tag & 0x1f), IsCompound: tag&0x20 != 0, Bytes: body}
	out, err := asn1.Marshal(raw)
	if err != nil {
		panic(err)
	}
	return out
}

func seq(parts ...[]byte) []byte { return tlv(0x30, parts...) }

func parts(t testing.TB, der []byte) (out [][]byte) {
	t.Helper()
	var outer, one asn1.RawValue
	if _, err := asn1.Unmarshal(der, &outer); err != nil {
		t.Fatal(err)
	}
	for rest := outer.Bytes; len(rest) > 0; out = append(out, one.FullBytes) {
		var err error
		one = asn1.RawValue{}
		if rest, err = asn1.Unmarshal(rest, &one); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// indexes of a certificate's fields
const (
	version = iota
	serial
	signature
	issuer
	validity
	subject
	publicKey
	extensions
)

func edit(t testing.TB, der []byte, change func([][]byte) [][]byte) []byte {
	whole := parts(t, der)
	whole[0] = seq(change(parts(t, whole[0]))...)
	return seq(whole...)
}

func encodePEM(der ...[]byte) (out []byte) {
	for _, d := range der {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d})...)
	}
	return out
}

func privatePEM(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
