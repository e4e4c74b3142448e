package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Keys of the Secret's data.
const (
	currentCert, currentKey = "tls.crt", "tls.key" // the signing authority
	nextCert, nextKey       = "next.crt", "next.key"
	previousCert            = "previous.crt"
)

// skew bounds the clock skew between nodes.
const skew = time.Hour

// signer is one authority: its certificate and key. The previous one has no key.
type signer struct {
	cert    *x509.Certificate
	certPEM []byte
	keyPEM  []byte
	key     *ecdsa.PrivateKey
}

// state is the content of the Secret.
type state struct{ current, next, previous *signer }

// read decodes the Secret's data. Data that cannot be decoded is an error: proxies would not trust a new authority in
// its place.
func read(data map[string][]byte) (s state, err error) {
	if s.current, err = readSigner(data[currentCert], data[currentKey], true); err != nil {
		return s, fmt.Errorf("%s: %w", currentCert, err)
	}
	if len(data[nextCert]) > 0 {
		if s.next, err = readSigner(data[nextCert], data[nextKey], true); err != nil {
			return s, fmt.Errorf("%s: %w", nextCert, err)
		}
	}
	if len(data[previousCert]) > 0 {
		if s.previous, err = readSigner(data[previousCert], nil, false); err != nil {
			return s, fmt.Errorf("%s: %w", previousCert, err)
		}
	}
	return s, nil
}

func readSigner(certPEM, keyPEM []byte, withKey bool) (*signer, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return nil, errors.New("no PEM certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	s := &signer{cert: cert, certPEM: certPEM, keyPEM: keyPEM}
	if !withKey {
		return s, nil
	}
	block, _ = pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("no PEM key for the certificate")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	var ok bool
	if s.key, ok = key.(*ecdsa.PrivateKey); !ok || !s.key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("the key does not belong to the certificate")
	}
	return s, nil
}

// write encodes the Secret's data.
func (s state) write() map[string][]byte {
	out := map[string][]byte{currentCert: s.current.certPEM, currentKey: s.current.keyPEM}
	if s.next != nil {
		out[nextCert], out[nextKey] = s.next.certPEM, s.next.keyPEM
	}
	if s.previous != nil {
		out[previousCert] = s.previous.certPEM
	}
	return out
}

// bundle is the certificates that proxies trust.
func (s state) bundle() []byte {
	var out bytes.Buffer
	for _, a := range []*signer{s.current, s.next, s.previous} {
		if a != nil {
			out.Write(a.certPEM)
		}
	}
	return out.Bytes()
}

// advance returns the state in which an authority should be at a time, and whether that is another one.
func (s state) advance(now time.Time, life, overlap time.Duration) (next state, changed bool, err error) {
	if s.previous != nil && now.After(s.previous.cert.NotAfter) {
		s.previous, changed = nil, true
	}
	if s.next != nil && now.Sub(s.next.cert.NotBefore.Add(skew)) >= overlap {
		s.previous, s.current, s.next, changed = s.current, s.next, nil, true
		s.previous.key, s.previous.keyPEM = nil, nil
	}
	if s.next == nil && s.current.cert.NotAfter.Sub(now) < life/3 {
		if s.next, err = newSigner(now, life); err != nil {
			return s, false, err
		}
		changed = true
	}
	return s, changed, nil
}

func newSigner(now time.Time, life time.Duration) (*signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// Unique names: of two authorities with one name, a verifier may try only the wrong one.
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("penstock %x", serial.Bytes()[:4])},
		NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return readSigner(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), true)
}

// issue signs a certificate for a process with these names. It expires with the authority at the latest.
func (s *signer) issue(now time.Time, life time.Duration, names []string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	end := now.Add(life)
	if end.After(s.cert.NotAfter) {
		end = s.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "penstock"}, DNSNames: names, NotBefore: now.Add(-skew), NotAfter: end,
		// Between processes of Penstock it is also a client certificate: see Mutual.
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.cert, key.Public(), s.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// given is the authority whose keys are handed out: the next one, once all replicas have long had it.
func (s state) given(now time.Time, overlap time.Duration) *signer {
	if s.next != nil && now.Sub(s.next.cert.NotBefore.Add(skew)) > overlap/2 {
		return s.next
	}
	return s.current
}

// derive derives a secret from the authority's key.
func (s *signer) derive(purpose string) string {
	mac := hmac.New(sha256.New, s.keyPEM)
	mac.Write([]byte(purpose))
	return hex.EncodeToString(mac.Sum(nil))
}
