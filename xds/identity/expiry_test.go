package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/xds/identity"
)

func from(ctx context.Context, ip string, chain ...*x509.Certificate) context.Context {
	p := &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}}
	if len(chain) > 0 {
		p.AuthInfo = credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{chain}}}
	}
	return peer.NewContext(ctx, p)
}

func TestSPIFFE_OtherTrustDomainNamesNoServiceAccount(t *testing.T) {
	for _, tc := range []struct {
		domain, want string
		ids          []string
	}{
		{"cluster.local", "a/b", []string{"spiffe://cluster.local/ns/a/sa/b"}},
		{"", "/", []string{"spiffe://cluster.local/ns/a/sa/b"}},
		{"east.example", "/", []string{"spiffe://cluster.local/ns/a/sa/b"}},
		{"cluster.local", "/", []string{"spiffe://cluster.local:443/ns/a/sa/b"}},
		{"cluster.local", "/", []string{"spiffe://cluster.local/x/ns/a/sa/b"}},
		{"cluster.local", "/", []string{"spiffe://cluster.local/ns/a/sa/b?c"}},
		{"cluster.local", "/", []string{"spiffe://cluster.local/ns/a/sa/b/"}},
		{"cluster.local", "/", []string{"https://cluster.local/ns/a/sa/b"}},
		{"cluster.local", "/", []string{"spiffe://cluster.local/ns/a/sa/b", "spiffe://cluster.local/ns/c/sa/d"}},
	} {
		cert := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
		for _, id := range tc.ids {
			u, err := url.Parse(id)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		g := identity.New(identity.Config{Reviewer: &reviewer{}, Members: echo{}, TrustDomain: tc.domain})
		if got, err := authorize(g, from(t.Context(), "10.0.0.1", cert)); err != nil || got != tc.want {
			t.Errorf("%v in trust domain %q: service account %q %v, want %q", tc.ids, tc.domain, got, err, tc.want)
		}
	}
}

func TestCredential_StreamEndsAtExpiry(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	end := now.Add(time.Hour)
	away := false
	token := jwt(end)
	g := identity.New(identity.Config{
		Reviewer: &reviewer{users: map[string]string{token: "system:serviceaccount:a:b"}}, Members: echo{},
		Now: func() time.Time { return now }, Unreachable: func() bool { return away },
	})
	cert := &x509.Certificate{DNSNames: []string{"edge.example"}, NotAfter: end}
	issuer := &x509.Certificate{NotAfter: end.Add(time.Hour)}
	for name, ctx := range map[string]context.Context{
		"token": from(bearing(token), "10.0.0.1"), "certificate": from(t.Context(), "10.0.0.1", cert, issuer),
	} {
		now, away = end.Add(-time.Minute), false
		c, err := g.Authenticate(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if next, err := c.Permitted("a/b"); err != nil || !next.Equal(end) {
			t.Errorf("%s: checked again at %v (%v), want %v", name, next, err, end)
		}
		now = end
		if _, err := c.Permitted("a/b"); err == nil {
			t.Errorf("%s: permitted after its expiry", name)
		}
		away = true // the kubelet cannot renew a token
		if next, err := c.Permitted("a/b"); err != nil || !next.After(now) {
			t.Errorf("%s while the API server cannot be reached: got %v %v, want permitted until later",
				name, next, err)
		}
		now = end.Add(24 * time.Hour)
		if _, err := c.Permitted("a/b"); err == nil {
			t.Errorf("%s: permitted a day after its expiry", name)
		}
		// With a token, the API server decides.
		if _, err := g.Authenticate(ctx); err == nil && name == "certificate" {
			t.Error("another stream of a connection is accepted a day after the expiry of its certificate")
		}
	}
}

func TestToken_FileThatCannotBeReadWithdrawsNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("of-envoys\n")
	f := identity.Files{Token: file}
	permitted, err := f.Authenticate(bearing("of-envoys"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := permitted(); err != nil {
		t.Errorf("while there is no file, a stream ends: got %v, want no error", err)
	}
	if _, err := f.Authenticate(bearing("of-envoys")); err == nil {
		t.Error("while there is no file, a new stream is accepted")
	}
	write("of-others\n")
	if _, err := permitted(); err == nil {
		t.Error("a stream outlives its token")
	}
}
