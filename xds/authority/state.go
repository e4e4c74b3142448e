package authority

import (
	"bytes"
	"crypto/ecdsa"
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
	"net/url"
	"time"
)

const (
	currentCert, currentKey = "tls.crt", "tls.key" // signing authority
	nextCert, nextKey       = "next.crt", "next.key"
	previousCert            = "previous.crt"
)

const (
	skew = time.Hour
	// tolerance is the largest tolerated clock error. Certificates are valid for tolerance before
	// the authority is made and after it is replaced. This covers two clocks that are a year wrong.
	tolerance = 800 * 24 * time.Hour
	// retention is how long an expired authority stays in the bundle after its replacement, for
	// processes that cannot read the Secret.
	retention = 7 * 24 * time.Hour
)

// keyPEM and key are nil for the previous authority.
type signer struct {
	cert    *x509.Certificate
	certPEM []byte
	keyPEM  []byte
	key     *ecdsa.PrivateKey
}

type state struct {
	current, next, previous *signer
	rotation                rotation
}

func read(data map[string][]byte) (s state, err error) {
	part := func(name string, key []byte, withKey bool) *signer {
		if len(data[name]) == 0 && name != currentCert {
			return nil
		}
		got, bad := readSigner(data[name], key, withKey)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
			return nil
		}
		return got
	}
	s.current = part(currentCert, data[currentKey], true)
	s.next = part(nextCert, data[nextKey], true)
	s.previous, s.rotation = part(previousCert, nil, false), readRotation(data)
	return s, err
}

// Other processes may present certificates of an intact authority, so it stays trusted.
func replacement(data map[string][]byte, now time.Time, life time.Duration) (s state, err error) {
	for _, name := range []string{previousCert, nextCert, currentCert} {
		if intact, bad := readSigner(data[name], nil, false); bad == nil {
			s.previous = intact
		}
	}
	s.current, err = newOwn(now, life)
	return s, err
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
	s := &signer{cert: cert, certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		keyPEM: keyPEM}
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

func (s state) write() map[string][]byte {
	out := map[string][]byte{currentCert: s.current.certPEM, currentKey: s.current.keyPEM}
	if s.next != nil {
		out[nextCert], out[nextKey] = s.next.certPEM, s.next.keyPEM
	}
	if s.previous != nil {
		out[previousCert] = s.previous.certPEM
	}
	s.rotation.write(out)
	return out
}

func (s state) bundle() []byte {
	var out bytes.Buffer
	for _, a := range []*signer{s.current, s.next, s.previous} {
		if a != nil {
			out.Write(a.certPEM)
		}
	}
	return out.Bytes()
}

func (s state) advance(now time.Time, life, overlap time.Duration) (next state, changed bool, err error) {
	if s.previous != nil && now.After(s.previous.cert.NotAfter) && now.Sub(s.current.created()) > retention {
		s.previous, changed = nil, true
	}
	if s.rotation.over(now) {
		s.previous, s.rotation, changed = nil, rotation{}, true
	}
	// If no authority is valid, the new authority signs at once.
	expired := now.After(s.current.cert.NotAfter)
	if expired && (s.next == nil || now.After(s.next.cert.NotAfter)) {
		if s.next, err = newOwn(now, life); err != nil {
			return s, false, err
		}
	}
	if s.next != nil && (expired || s.rotation.due(now) || now.Sub(s.next.created()) >= overlap) {
		s.previous, s.current, s.next, changed = s.current.withoutKey(), s.next, nil, true
		s.rotation = s.rotation.signing(now)
	}
	// The first condition is for authorities of earlier releases, which expire at the end of their
	// life.
	if s.next == nil && (s.current.cert.NotAfter.Sub(now) < life/3 || now.Sub(s.current.created()) > life-life/3) {
		if s.next, err = newOwn(now, life); err != nil {
			return s, false, err
		}
		changed = true
	}
	return s, changed, nil
}

func (s *signer) created() time.Time {
	if at, err := time.Parse(time.RFC3339, s.cert.Subject.SerialNumber); err == nil {
		return at
	}
	return s.cert.NotBefore.Add(skew) // an earlier release made the authority
}

func (s *signer) withoutKey() *signer { return &signer{cert: s.cert, certPEM: s.certPEM} }

func newOwn(now time.Time, life time.Duration) (*signer, error) {
	return newSigner(now, tolerance, life+tolerance)
}

func newSigner(now time.Time, before, after time.Duration) (*signer, error) {
	key, serial, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		// Each authority has its own name, because a verifier may try only one authority of a name.
		SerialNumber: serial,
		Subject: pkix.Name{CommonName: fmt.Sprintf("penstock %x", serial.Bytes()[:4]),
			SerialNumber: now.UTC().Format(time.RFC3339)},
		NotBefore: now.Add(-before), NotAfter: now.Add(after),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	pair, err := newPair(der, key)
	if err != nil {
		return nil, err
	}
	return readSigner(pair.Cert, pair.Key, true)
}

// With validity 0 the certificate is valid as long as the authority. A shorter validity protects
// nothing while the authority's key is in the same memory.
func (s *signer) issue(names []string, id *url.URL, now time.Time, validity time.Duration) (*tls.Certificate, error) {
	key, serial, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "penstock"}, DNSNames: names, NotBefore: s.cert.NotBefore,
		NotAfter: s.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
	}
	if id != nil {
		template.URIs = []*url.URL{id}
	}
	if validity > 0 {
		if begin := now.Add(-validity); begin.After(s.cert.NotBefore) {
			template.NotBefore = begin
		}
		if end := now.Add(validity); end.Before(s.cert.NotAfter) {
			template.NotAfter = end
		}
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

// Proxies get the next authority's keys after half of the overlap.
func (s state) given(now time.Time, overlap time.Duration) *signer {
	if s.next != nil && !s.rotation.signs.IsZero() {
		overlap = min(overlap, s.rotation.signs.Sub(s.next.created()))
	}
	if s.next != nil && now.Sub(s.next.created()) > overlap/2 {
		return s.next
	}
	return s.current
}

func (s *signer) derive(purpose string) string {
	mac := hmac.New(sha256.New, s.keyPEM)
	mac.Write([]byte(purpose))
	return hex.EncodeToString(mac.Sum(nil))
}
