package parties

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"
)

// CA is the certificate authority of a cluster.
type CA struct {
	testing.TB
	Bundle string // the CA certificate, in PEM
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// NewCA makes an authority that is valid for an hour.
func NewCA(t testing.TB) *CA {
	t.Helper()
	c := &CA{TB: t}
	top := c.Sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign},
		time.Hour)
	c.cert, _ = x509.ParseCertificate(top.Certificate[0])
	c.key, _ = top.PrivateKey.(*ecdsa.PrivateKey)
	c.Bundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}))
	return c
}

// Sign issues a certificate that is valid for life. The first certificate is the CA's own, and is
// self-signed.
func (c *CA) Sign(template *x509.Certificate, life time.Duration) tls.Certificate {
	c.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(life)
	parent, signer := template, key
	if c.key != nil {
		parent, signer = c.cert, c.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		c.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Identity issues a certificate for a SPIFFE ID, for clients and servers.
func (c *CA) Identity(domain, path string, life time.Duration) tls.Certificate {
	c.Helper()
	return c.Sign(&x509.Certificate{
		KeyUsage: x509.KeyUsageDigitalSignature, URIs: []*url.URL{{Scheme: "spiffe", Host: domain, Path: path}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, life)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
