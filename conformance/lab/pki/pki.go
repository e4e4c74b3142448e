package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"time"
)

const lifetime = 365 * 24 * time.Hour

// Pair is a certificate and its private key in PEM.
type Pair struct{ Certificate, Key []byte }

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Subject is the holder of a certificate. The certificate is valid for clients and servers.
type Subject struct {
	Name   string   // Kubernetes' user name
	Groups []string // Kubernetes' groups
	DNS    []string
	IPs    []netip.Addr
	URI    *url.URL // nil: no URI
}

// NewAuthority creates a CA with a new key, valid from an hour before now.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &Authority{}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	raw, err := a.sign(template, template, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(raw)
	}
	if err == nil {
		a.Pair, err = encode(raw, a.key)
	}
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return a, nil
}

// Issue creates a certificate with a new key.
func (a *Authority) Issue(s Subject) (pair Pair, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: s.Name, Organization: s.Groups}, NotBefore: a.cert.NotBefore,
		NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, DNSNames: s.DNS,
	}
	for _, ip := range s.IPs {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	if s.URI != nil {
		template.URIs = []*url.URL{s.URI}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err == nil {
		var raw []byte
		if raw, err = a.sign(template, a.cert, key); err == nil {
			pair, err = encode(raw, key)
		}
	}
	if err != nil {
		return Pair{}, fmt.Errorf("certificate of %s: %w", s.Name, err)
	}
	return pair, nil
}

func (a *Authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) (der []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
}

func encode(cert []byte, key *ecdsa.PrivateKey) (Pair, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}, err
}
