package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newIssuer() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	i := &issuer{key: key, serial: 1}
	template := i.template("zeroloss CA")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	i.certificate, err = x509.ParseCertificate(der)
	return i, err
}

func (i *issuer) template(name string) *x509.Certificate {
	i.serial++
	return &x509.Certificate{SerialNumber: big.NewInt(i.serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

func (i *issuer) issue(host string) *secret {
	template := i.template(host)
	template.DNSNames = []string{host}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return &secret{host: host} // no entropy: nothing works then, as the first request shows
	}
	der, err := x509.CreateCertificate(rand.Reader, template, i.certificate, key.Public(), i.key)
	if err != nil {
		return &secret{host: host}
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return &secret{host: host}
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return &secret{host: host, cert: block("CERTIFICATE", der), key: block("PRIVATE KEY", private)}
}
