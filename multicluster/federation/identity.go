package federation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// ProcessPath is the path of the SPIFFE ID of every Penstock process in a federation.
const ProcessPath = "/penstock"

// Member is another cluster of the set that connects without a hub. Its name is its trust domain.
type Member struct {
	Name    string
	Address string // HOST:PORT
	// Bundle has the trust domain's CA certificates from the ClusterSet, in PEM.
	Bundle []byte
	// Published is registry.Update.Bundle of the member's last update. It is trusted if Bundle
	// authenticated the connection of that update.
	Published []byte
}

// trust identifies members by their certificates. It is safe for concurrent use.
type trust struct {
	certificate func() (*tls.Certificate, error)
	now         func() time.Time

	mu     sync.RWMutex
	byName map[string]trusted
}

type trusted struct {
	bundle    []byte
	published []byte
	roots     *x509.CertPool
}

func newTrust(certificate func() (*tls.Certificate, error), now func() time.Time) *trust {
	return &trust{certificate: certificate, now: now, byName: map[string]trusted{}}
}

func (t *trust) set(members []Member) {
	byName := make(map[string]trusted, len(members))
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range members {
		if len(m.Bundle) > 0 { // without a bundle, no certificate of the member is valid
			byName[m.Name] = newTrusted(m.Bundle, m.Published)
		}
	}
	t.byName = byName
}

func newTrusted(bundle, published []byte) trusted {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(TrustedBundle(bundle, published))
	return trusted{bundle: bundle, published: published, roots: roots}
}

// TrustedBundle returns the certificates, in PEM, that vouch for a member: Member.Bundle, and
// Member.Published if Bundle authenticated it.
func TrustedBundle(bundle, published []byte) []byte {
	if rest, ok := bytes.CutPrefix(published, under(bundle)); ok {
		return slices.Concat(bundle, []byte("\n"), rest)
	}
	return bundle
}

// published makes a member's published bundle trusted, and returns its stored form; nil: there is
// no such member, or no bundle.
func (t *trust) published(name string, pem []byte) (kept []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := t.byName[name]
	if !ok || len(pem) == 0 {
		return nil
	}
	if kept = slices.Concat(under(m.bundle), pem); !bytes.Equal(kept, m.published) {
		t.byName[name] = newTrusted(m.bundle, kept)
	}
	return kept
}

// under returns the first line of the stored form of a published bundle: the hash of the
// ClusterSet's bundle that authenticated it. Once that bundle is replaced, for example after a
// leak, the published bundle is not trusted.
func under(bundle []byte) []byte {
	return fmt.Appendf(nil, "Published under %x\n", sha256.Sum256(bundle))
}

func (t *trust) has(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, ok := t.byName[name]
	return ok
}

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
	name := id.TrustDomain().Name()
	m, ok := t.byName[name]
	t.mu.RUnlock()
	switch {
	case !ok:
		return "", fmt.Errorf("no member has trust domain %s", name)
	case id.Path() != ProcessPath:
		return "", fmt.Errorf("%s may not take part: its path is not %s", id, ProcessPath)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, CurrentTime: t.now(),
		KeyUsages: []x509.ExtKeyUsage{usage}})
	return name, err
}

func (t *trust) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert,
		SessionTicketsDisabled: true, // each connection must prove its identity
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := t.member(s.PeerCertificates, x509.ExtKeyUsageClientAuth)
			return err
		},
	}
}

func (t *trust) client(name string) *tls.Config {
	return &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() },
		InsecureSkipVerify:   true, // VerifyConnection checks the SPIFFE ID instead of the host name
		VerifyConnection: func(s tls.ConnectionState) error {
			switch at, err := t.member(s.PeerCertificates, x509.ExtKeyUsageServerAuth); {
			case err != nil:
				return err
			case at != name:
				return fmt.Errorf("it is member %s, not %s", at, name)
			}
			return nil
		},
	}
}

func (t *trust) identify(ctx context.Context) (string, error) {
	from, ok := grpcpeer.FromContext(ctx)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "no connection")
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", status.Error(codes.Unauthenticated, "the connection has no certificate")
	}
	// The certificate is checked again, because SetMembers may have run since the handshake.
	name, err := t.member(info.State.PeerCertificates, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return "", status.Error(codes.PermissionDenied, err.Error())
	}
	return name, nil
}
