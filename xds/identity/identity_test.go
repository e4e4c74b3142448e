package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/xds/identity"
)

func TestServiceAccountToken_ReviewIsCachedUntilExpiry(t *testing.T) {
	r := &reviewer{users: map[string]string{}}
	now := time.Unix(1_000_000, 0)
	g := identity.New(identity.Config{Reviewer: r, Members: echo{}, Now: func() time.Time { return now }})
	short := jwt(now.Add(time.Minute))
	r.users[short] = "system:serviceaccount:a:b"
	expect := func(token, want string, reviews int) {
		t.Helper()
		got, err := authorize(g, bearing(token))
		if want == "" && err == nil || got != want {
			t.Errorf("got %q %v, want %q", got, err, want)
		}
		if r.reviews != reviews {
			t.Errorf("%d reviews, want %d", r.reviews, reviews)
		}
	}
	expect(short, "a/b", 1)
	expect(short, "a/b", 1)
	now = now.Add(2 * time.Minute) // the token has expired, so the review denies it
	delete(r.users, short)
	expect(short, "", 2)
	expect(short, "", 2)
	long := jwt(now.Add(time.Hour))
	r.users[long] = "system:serviceaccount:a:b"
	expect(long, "a/b", 3)
	now = now.Add(6 * time.Minute)
	delete(r.users, long) // the token's pod is deleted
	expect(long, "", 4)
	now = now.Add(time.Minute)
	r.users[long] = "system:serviceaccount:a:b" // denials are cached only for seconds
	expect(long, "a/b", 5)
	person := jwt(now.Add(2 * time.Hour))
	r.users[person] = "jane"
	expect(person, "", 6)
}

func TestServiceAccountToken_FailedReviewIsRetried(t *testing.T) {
	token := jwt(time.Now().Add(time.Hour))
	r := &reviewer{users: map[string]string{token: "system:serviceaccount:a:b"}, broken: errors.New("no answer")}
	g := identity.New(identity.Config{Reviewer: r, Members: echo{}})
	if _, err := authorize(g, bearing(token)); err == nil {
		t.Error("authorized without a review")
	}
	r.broken = nil
	if got, err := authorize(g, bearing(token)); err != nil || got != "a/b" {
		t.Errorf(`%q %v, want "a/b"`, got, err)
	}
}

func TestServiceAccountToken_DenialNamesAudience(t *testing.T) {
	g := identity.New(identity.Config{Reviewer: &reviewer{}, Members: echo{}})
	if _, err := authorize(g, bearing("t")); err == nil || !strings.Contains(err.Error(), "audience penstock.dev") {
		t.Errorf("got %v, want an error that names audience penstock.dev", err)
	}
}

func TestCertificate_CountsOnlyIfVerified(t *testing.T) {
	g := identity.New(identity.Config{Reviewer: &reviewer{}, Members: echo{}, TrustDomain: "cluster.local"})
	id, _ := url.Parse("spiffe://cluster.local/ns/a/sa/b")
	cert := &x509.Certificate{DNSNames: []string{"edge.example"}, URIs: []*url.URL{id},
		NotAfter: time.Now().Add(time.Hour)}
	with := func(chains [][]*x509.Certificate) context.Context {
		return peer.NewContext(context.Background(),
			&peer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{
				PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: chains,
			}}})
	}
	if got, err := authorize(g, with([][]*x509.Certificate{{cert}})); err != nil || got != "a/b" {
		t.Errorf(`%q %v, want "a/b"`, got, err)
	}
	if _, err := authorize(g, with(nil)); err == nil {
		t.Error("an unverified certificate is authorized")
	}
}

func TestAuthenticate_DeniesConnectionWithoutCredentials(t *testing.T) {
	g := identity.New(identity.Config{Reviewer: &reviewer{}, Members: echo{}})
	if _, err := authorize(g, context.Background()); err == nil {
		t.Error("node.cluster alone is authorized")
	}
}

func authorize(g *identity.Guard, ctx context.Context) (string, error) {
	c, err := g.Authenticate(ctx)
	if err != nil {
		return "", err
	}
	return c.Gateway(&corev3.Node{Cluster: "wish/me"})
}

type reviewer struct {
	mu      sync.Mutex
	users   map[string]string
	reviews int
	broken  error
}

func (r *reviewer) ReviewToken(_ context.Context, token, audience string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reviews++
	if audience != "penstock.dev" {
		return "", nil
	}
	return r.users[token], r.broken
}

type echo struct{}

func (echo) Recheck(identity.Proof, string) error { return nil }

func (echo) Member(p identity.Proof, _ string) (string, error) {
	return p.Namespace + "/" + p.Account, nil
}

func bearing(token string) context.Context {
	return metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer "+token))
}

func jwt(end time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(
		[]byte(fmt.Sprintf(`{"exp":%d,"aud":["penstock.dev"]}`, end.Unix()))) + ".sig"
}
