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

// Proof is what a connection proves.
type Proof struct {
	// Namespace and Account are the service account's; empty if none was proved.
	Namespace, Account string
	// Names are DNS names and URIs of a verified certificate.
	Names []string
}

// Members say whose proxy one is. *fleet.Fleets is one.
type Members interface {
	// Member returns the Gateway ("namespace/name") that a proxy may serve that proves this and asks for wish.
	Member(p Proof, wish string) (gateway string, err error)
	// Still says whether who proves this may still serve a Gateway. One that is gone has nothing to hide: an error is of
	// another one's.
	Still(p Proof, gateway string) error
}

// Config is what a Guard needs.
type Config struct {
	Reviewer Reviewer // required
	Members  Members  // required
	// Audience of tokens. Required.
	Audience string
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Guard finds out who connects. Safe for use by many.
type Guard struct {
	members Members
	tokens  *tokens
}

// New makes a Guard.
func New(c Config) *Guard {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Guard{members: c.Members, tokens: &tokens{reviewer: c.Reviewer, audience: c.Audience, now: c.Now, answers: map[[sha256.Size]byte]answer{}}}
}

// Authorize implements server.Authorize. What was proved at a stream's begin holds to its end: tokens end while their pods go on.
func (g *Guard) Authorize(ctx context.Context, node *corev3.Node) (gateway string, still func() error, err error) {
	p, err := g.prove(ctx)
	if err != nil {
		return "", nil, err
	}
	if gateway, err = g.members.Member(p, node.GetCluster()); err != nil {
		return "", nil, err
	}
	return gateway, func() error { return g.members.Still(p, gateway) }, nil
}

// prove looks at the certificate first: a proxy that has one needs no token.
func (g *Guard) prove(ctx context.Context) (Proof, error) {
	if from, ok := peer.FromContext(ctx); ok {
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			return fromCertificate(info.State.VerifiedChains[0][0]), nil
		}
	}
	md, _ := metadata.FromIncomingContext(ctx)
	for _, v := range md.Get("authorization") {
		token, ok := strings.CutPrefix(v, "Bearer ")
		if !ok {
			continue
		}
		user, err := g.tokens.user(ctx, token)
		if err != nil {
			return Proof{}, err
		}
		// system:serviceaccount:NAMESPACE:NAME
		if parts := strings.Split(user, ":"); len(parts) == 4 && parts[0] == "system" && parts[1] == "serviceaccount" {
			return Proof{Namespace: parts[2], Account: parts[3]}, nil
		}
		return Proof{}, errors.New("the token is not a service account's")
	}
	return Proof{}, errors.New("no token and no certificate: proxies of a fleet have one, for others see penstock bootstrap --help")
}

// fromCertificate reads the names of a verified certificate, and the service account of a SPIFFE id.
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

// keyHeader carries the key that proxies have from their configuration, in calls to the picker.
const keyHeader = "authorization"

// WithKey lets calls pass that carry one of some keys as a bearer token, which proxies have from their configuration: who
// may read that may ask for picks. exempt are services that anyone may call, such as health.
func WithKey(keys func() []string, exempt ...string) []grpc.ServerOption {
	check := func(ctx context.Context, method string) error {
		for _, service := range exempt {
			if strings.HasPrefix(method, "/"+service+"/") {
				return nil
			}
		}
		md, _ := metadata.FromIncomingContext(ctx)
		for _, v := range md.Get(keyHeader) {
			given, _ := strings.CutPrefix(v, "Bearer ")
			for _, key := range keys() {
				if subtle.ConstantTimeCompare([]byte(given), []byte(key)) == 1 {
					return nil
				}
			}
		}
		return status.Error(codes.Unauthenticated, "the call carries no key of this installation")
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

// String is how a person reads it.
func (p Proof) String() string {
	if p.Account != "" {
		return "service account " + p.Namespace + "/" + p.Account
	}
	return "a certificate of " + strings.Join(p.Names, ", ")
}
