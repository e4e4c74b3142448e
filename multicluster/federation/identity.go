package federation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// ProcessPath is the path of the SPIFFE ID of a process that takes part in a federation.
const ProcessPath = "/penstock"

// Member is another cluster of the set whose Penstock is a peer.
type Member struct {
	Name        string
	Address     string // HOST:PORT
	TrustDomain string
	Bundle      []byte // CA certificates of the trust domain, in PEM
}

// trust finds members by the certificates that they present. It is safe for concurrent use.
type trust struct {
	certificate func() (*tls.Certificate, error)
	now         func() time.Time

	mu       sync.RWMutex
	byDomain map[string]trusted
	byName   map[string]string // trust domain
}

type trusted struct {
	name  string
	roots *x509.CertPool
}

func newTrust(certificate func() (*tls.Certificate, error), now func() time.Time) *trust {
	return &trust{certificate: certificate, now: now, byDomain: map[string]trusted{}, byName: map[string]string{}}
}

func (t *trust) set(members []Member) {
	byDomain, byName := make(map[string]trusted, len(members)), make(map[string]string, len(members))
	for _, m := range members {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(m.Bundle)
		byDomain[m.TrustDomain], byName[m.Name] = trusted{m.Name, roots}, m.TrustDomain
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byDomain, t.byName = byDomain, byName
}

// member returns the name of the member whose certificate a chain begins with.
func (t *trust) member(chain []*x509.Certificate, usage x509.ExtKeyUsage) (string, error) {
	if len(chain) == 0 {
		return "", errors.New("no certificate")
	}
	leaf := chain[0]
	if len(leaf.URIs) != 1 {
		return "", fmt.Errorf("the certificate has %d URIs: want one SPIFFE ID", len(leaf.URIs))
	}
	id, err := spiffeid.FromURI(leaf.URIs[0])
	if err != nil {
		return "", err
	}
	t.mu.RLock()
	m, ok := t.byDomain[id.TrustDomain().Name()]
	t.mu.RUnlock()
	switch {
	case !ok:
		return "", fmt.Errorf("trust domain %s is that of no member", id.TrustDomain().Name())
	case id.Path() != ProcessPath:
		return "", fmt.Errorf("%s may not take part: its path is not %s", id, ProcessPath)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, CurrentTime: t.now(), KeyUsages: []x509.ExtKeyUsage{usage}})
	return m.name, err
}

// server admits members alone.
func (t *trust) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := t.member(s.PeerCertificates, x509.ExtKeyUsageClientAuth)
			return err
		},
	}
}

// client connects to one member alone.
func (t *trust) client(name string) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() },
		InsecureSkipVerify:   true, // VerifyConnection replaces the check of host names by that of the SPIFFE ID
		VerifyConnection: func(s tls.ConnectionState) error {
			switch is, err := t.member(s.PeerCertificates, x509.ExtKeyUsageServerAuth); {
			case err != nil:
				return err
			case is != name:
				return fmt.Errorf("it is member %s, not %s", is, name)
			}
			return nil
		},
	}
}

// identify returns the member that a call is of.
func (t *trust) identify(ctx context.Context) (string, error) {
	from, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "no connection")
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "the connection has no certificate")
	}
	name, err := t.member(info.State.PeerCertificates, x509.ExtKeyUsageClientAuth) // again: the members may have changed since the handshake
	if err != nil {
		return "", status.Error(codes.PermissionDenied, err.Error())
	}
	return name, nil
}
