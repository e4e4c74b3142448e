package identity

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/xds/admission"
)

// Proof is the authenticated identity of a connection.
type Proof struct {
	// Namespace and Account identify the service account, if any.
	Namespace, Account string
	// Names are the DNS names and URIs of a verified certificate.
	Names []string
}

// Members maps proxies to Gateways. *fleet.Fleets implements it.
type Members interface {
	// Member returns the Gateway that a proxy may serve. wish is node.cluster. An error denies the
	// proxy.
	Member(p Proof, wish string) (gateway string, err error)
	// Recheck returns an error if the proxy may no longer serve the Gateway, but not for a deleted
	// Gateway.
	Recheck(p Proof, gateway string) error
}

// Config configures a Guard.
type Config struct {
	Reviewer Reviewer // required
	Members  Members  // required
	// TrustDomain is the SPIFFE trust domain of this cluster's service accounts. If empty, SPIFFE
	// IDs identify no service account.
	TrustDomain string
	// Unreachable reports whether the API server is unreachable. Accepted credentials then stay
	// valid for 24 hours after their expiry. Optional.
	Unreachable func() bool
	// ClientCAs verify client certificates; nil: only tokens are accepted.
	ClientCAs *x509.CertPool
	// Wall is the clock for times in tokens. Default: Now.
	Now, Wall func() time.Time
}

// Audience is the audience of proxies' tokens.
const Audience = "penstock.dev"

// Guard authenticates connections. It is safe for concurrent use.
type Guard struct {
	cfg          Config
	tokens       *tokens
	certificates *certificates
}

// New returns a Guard.
func New(c Config) *Guard {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Wall == nil {
		c.Wall = c.Now
	}
	if c.Unreachable == nil {
		c.Unreachable = func() bool { return false }
	}
	return &Guard{cfg: c, tokens: newTokens(c.Reviewer, c.Now, c.Wall, c.Unreachable), certificates: newCertificates(c)}
}

// Client is an authenticated client. It implements server.Proxy.
type Client struct {
	guard   *Guard
	proof   Proof
	expires time.Time
}

// Authenticate verifies the credential of a call without reading a message.
func (g *Guard) Authenticate(ctx context.Context) (*Client, error) {
	p, expires, err := g.prove(ctx)
	if err != nil {
		return nil, err
	}
	c := &Client{guard: g, proof: p, expires: expires}
	if _, err := c.valid(); err != nil {
		admission.CloseSoon(ctx) // a token was just reviewed, so a certificate has expired
		return nil, err
	}
	return c, nil
}

// Gateway implements server.Proxy.
func (c *Client) Gateway(node *corev3.Node) (string, error) {
	return c.guard.cfg.Members.Member(c.proof, node.GetCluster())
}

const (
	grace      = 24 * time.Hour
	graceCheck = 10 * time.Second
)

// Permitted implements server.Proxy.
func (c *Client) Permitted(gateway string) (next time.Time, err error) {
	if err := c.guard.cfg.Members.Recheck(c.proof, gateway); err != nil {
		return time.Time{}, err
	}
	return c.valid()
}

// valid returns when to call it again, or an error once the credential has expired.
func (c *Client) valid() (next time.Time, err error) {
	now := c.guard.cfg.Now()
	switch {
	case c.expires.IsZero() || now.Before(c.expires):
		return c.expires, nil
	case now.Before(c.expires.Add(grace)) && c.guard.cfg.Unreachable():
		return now.Add(graceCheck), nil
	}
	return time.Time{},
		fmt.Errorf("the credential of %s expired at %s: connect again with its successor", c.proof,
			c.expires.UTC().Format(time.RFC3339))
}

func (g *Guard) prove(ctx context.Context) (p Proof, expires time.Time, err error) {
	from, ok := peer.FromContext(ctx)
	if ok {
		info, _ := from.AuthInfo.(credentials.TLSInfo)
		if chain := g.certificates.verified(info.State); chain != nil {
			return fromCertificate(chain[0], g.cfg.TrustDomain), ends(chain), nil
		}
	}
	tokens := bearerTokens(ctx)
	if len(tokens) == 0 {
		return p, expires,
			errors.New(
				"no token and no certificate: proxies of a fleet have a token; for other proxies see penstock " +
					"bootstrap --help")
	}
	a, err := g.tokens.review(ctx, addressOf(from), tokens[0])
	if err != nil {
		return p, expires, err
	}
	if parts := strings.Split(a.user, ":"); len(parts) == 4 && parts[0] == "system" && parts[1] == "serviceaccount" {
		return Proof{Namespace: parts[2], Account: parts[3]}, a.expires, nil
	}
	return p, expires, errors.New("the token is not a service account's")
}

func addressOf(p *peer.Peer) netip.Addr {
	if p == nil || p.Addr == nil {
		return netip.Addr{}
	}
	return admission.Address(p.Addr)
}

func fromCertificate(c *x509.Certificate, trustDomain string) Proof {
	p := Proof{Names: append([]string(nil), c.DNSNames...)}
	for _, u := range c.URIs {
		p.Names = append(p.Names, u.String())
	}
	// An X.509 SVID has exactly one URI (X509-SVID, section 2).
	if trustDomain == "" || len(c.URIs) != 1 {
		return p
	}
	id, err := spiffeid.FromURI(c.URIs[0])
	if err != nil || id.TrustDomain().Name() != trustDomain {
		return p
	}
	if parts := strings.Split(id.Path(), "/"); len(parts) == 5 && parts[1] == "ns" && parts[3] == "sa" {
		p.Namespace, p.Account = parts[2], parts[4]
	}
	return p
}

func ends(chain []*x509.Certificate) time.Time {
	end := chain[0].NotAfter
	for _, c := range chain {
		if c.NotAfter.Before(end) {
			end = c.NotAfter
		}
	}
	return end
}

func bearerTokens(ctx context.Context) (out []string) {
	md, _ := metadata.FromIncomingContext(ctx)
	return bearers(md)
}

func bearers(md metadata.MD) (out []string) {
	for _, v := range md.Get("authorization") {
		if token, ok := strings.CutPrefix(v, "Bearer "); ok {
			out = append(out, token)
		}
	}
	return out
}

func (p Proof) String() string {
	if p.Account != "" {
		return "service account " + objectid.Join(p.Namespace, p.Account)
	}
	return "a certificate of " + strings.Join(p.Names, ", ")
}
