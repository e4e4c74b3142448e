package identity

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"time"

	"k8s.io/utils/lru"
)

// certificates verifies client certificates. While the API server is unreachable, it also accepts
// expired certificates that it has verified before.
type certificates struct {
	roots       *x509.CertPool
	now         func() time.Time
	unreachable func() bool
	accepted    *lru.Cache
}

func newCertificates(c Config) *certificates {
	return &certificates{roots: c.ClientCAs, now: c.Now, unreachable: c.Unreachable, accepted: lru.New(remembered)}
}

// TLS adds optional client certificates to a server's configuration. While the API server is
// unreachable, the handshake accepts any certificate, and Authenticate verifies it.
func (g *Guard) TLS(server *tls.Config) *tls.Config {
	c := g.certificates
	if c.roots == nil {
		return server
	}
	strict := server.Clone()
	strict.ClientCAs, strict.ClientAuth, strict.Time = c.roots, tls.VerifyClientCertIfGiven, c.now
	lenient := strict.Clone()
	lenient.ClientAuth = tls.RequestClientCert
	strict.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if c.unreachable() {
			return lenient, nil
		}
		return nil, nil
	}
	return strict
}

func (c *certificates) verified(s tls.ConnectionState) []*x509.Certificate {
	if len(s.VerifiedChains) > 0 {
		chain := s.VerifiedChains[0]
		c.accepted.Add(sha256.Sum256(chain[0].Raw), struct{}{})
		return chain
	}
	if len(s.PeerCertificates) == 0 || c.roots == nil {
		return nil
	}
	leaf, at := s.PeerCertificates[0], c.now()
	if at.After(leaf.NotAfter) {
		if _, before := c.accepted.Get(sha256.Sum256(leaf.Raw)); !before || !c.unreachable() ||
			!at.Before(leaf.NotAfter.Add(grace)) {
			return nil
		}
		at = leaf.NotAfter
	}
	intermediates := x509.NewCertPool()
	for _, i := range s.PeerCertificates[1:] {
		intermediates.AddCert(i)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.roots, Intermediates: intermediates, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil
	}
	c.accepted.Add(sha256.Sum256(leaf.Raw), struct{}{})
	return chains[0]
}
