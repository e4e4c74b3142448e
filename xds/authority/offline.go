package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Pair is a certificate and its private key, in PEM.
type Pair struct{ Cert, Key []byte }

// NewPair creates a CA for use outside of Kubernetes.
func NewPair(now time.Time, life time.Duration) (Pair, error) {
	s, err := newSigner(now, skew, life)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: s.certPEM, Key: s.keyPEM}, nil
}

// Issue signs a client certificate with the CA p, and if server is set, also for servers. names are
// DNS names or IP addresses; the first is the subject. The certificate expires no later than the
// CA.
func (p Pair) Issue(now time.Time, life time.Duration, server bool, names ...string) (Pair, error) {
	ca, err := readSigner(p.Cert, p.Key, true)
	if err != nil {
		return Pair{}, err
	}
	key, serial, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, NotBefore: now.Add(-skew),
		NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	if server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return Pair{}, err
	}
	return newPair(der, key)
}

func newKey() (key *ecdsa.PrivateKey, serial *big.Int, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err == nil {
		serial, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	}
	return key, serial, err
}

func newPair(der []byte, key any) (Pair, error) {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}, nil
}
