package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Proof is the authenticated identity of a connection.
type Proof struct {
	// Namespace and Account are those of the service account; empty if there is none.
	Namespace, Account string
	// Names are the DNS names and URIs of a verified certificate.
	Names []string
}

// Members maps proxies to Gateways. *fleet.Fleets implements it.
type Members interface {
	// Member returns the Gateway ("namespace/name") that a proxy may serve; wish is its node.cluster. An error denies
	// it.
	Member(p Proof, wish string) (gateway string, err error)
	// Recheck returns an error if the proxy may not serve a Gateway any more. A deleted Gateway is no reason to
	// deny: an error means that the Gateway now belongs to others.
	Recheck(p Proof, gateway string) error
}

// Config configures a Guard.
type Config struct {
	Reviewer Reviewer // required
	Members  Members  // required
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Audience is that of the tokens with which proxies authenticate.
const Audience = "penstock.dev"

// Guard authenticates connections. It is safe for concurrent use.
type Guard struct {
	members Members
	tokens  *tokens
}

// New returns a Guard.
func New(c Config) *Guard {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Guard{members: c.Members, tokens: &tokens{reviewer: c.Reviewer, now: c.Now, answers: map[[sha256.Size]byte]answer{}}}
}

// Authorize implements server.Authorize. An authentication holds until the stream ends, because tokens expire before
// their pods end.
func (g *Guard) Authorize(ctx context.Context, node *corev3.Node) (gateway string, permitted func() error, err error) {
	p, err := g.prove(ctx)
	if err != nil {
		return "", nil, err
	}
	if gateway, err = g.members.Member(p, node.GetCluster()); err != nil {
		return "", nil, err
	}
	return gateway, func() error { return g.members.Recheck(p, gateway) }, nil
}

// prove checks the certificate first: a proxy with a certificate needs no token.
func (g *Guard) prove(ctx context.Context) (Proof, error) {
	if from, ok := peer.FromContext(ctx); ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			return fromCertificate(info.State.VerifiedChains[0][0]), nil
		}
	}
	if tokens := bearerTokens(ctx); len(tokens) > 0 {
		user, err := g.tokens.user(ctx, tokens[0])
		if err != nil {
			return Proof{}, err
		}
		// system:serviceaccount:NAMESPACE:NAME
		if parts := strings.Split(user, ":"); len(parts) == 4 && parts[0] == "system" && parts[1] == "serviceaccount" {
			return Proof{Namespace: parts[2], Account: parts[3]}, nil
		}
		return Proof{}, errors.New("the token is not a service account's")
	}
	return Proof{}, errors.New("no token and no certificate: proxies of a fleet have a token; for other proxies see penstock bootstrap --help")
}

// fromCertificate returns the names of a verified certificate, and the service account of a SPIFFE ID.
func fromCertificate(c *x509.Certificate) Proof {
	p := Proof{Names: append([]string(nil), c.DNSNames...)}
	for _, u := range c.URIs {
		p.Names = append(p.Names, u.String())
		// spiffe://DOMAIN/ns/NAMESPACE/sa/NAME
		if parts := strings.Split(strings.TrimPrefix(u.Path, "/"), "/"); u.Scheme == "spiffe" && len(parts) == 4 && parts[0] == "ns" && parts[2] == "sa" {
			p.Namespace, p.Account = parts[1], parts[3]
		}
	}
	return p
}

// bearerTokens are the bearer tokens of a call.
func bearerTokens(ctx context.Context) (out []string) {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("authorization") {
		if token, ok := strings.CutPrefix(v, "Bearer "); ok {
			out = append(out, token)
		}
	}
	return out
}

// WithKey denies calls without one of the given keys as a bearer token. Proxies get the key in their configuration: a
// client that may read that may ask for picks. exempt are services without a key, such as health.
func WithKey(keys func() []string, exempt ...string) []grpc.ServerOption {
	check := func(ctx context.Context, method string) error {
		for _, service := range exempt {
			if strings.HasPrefix(method, "/"+service+"/") {
				return nil
			}
		}
		for _, given := range bearerTokens(ctx) {
			for _, key := range keys() {
				if subtle.ConstantTimeCompare([]byte(given), []byte(key)) == 1 {
					return nil
				}
			}
		}
		return status.Error(codes.Unauthenticated, "the call has no key of this installation")
	}
	return []grpc.ServerOption{
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := check(s.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, s)
		}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := check(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
	}
}

// String names the identity in messages.
func (p Proof) String() string {
	if p.Account != "" {
		return "service account " + p.Namespace + "/" + p.Account
	}
	return "a certificate of " + strings.Join(p.Names, ", ")
}
