package identity_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/penstock-project/penstock/xds/identity"
)

func TestServiceAccountToken_AcceptedOneReconnectsForADayWhileTheAPIServerIsAway(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	end := now.Add(time.Hour)
	known, unknown := jwt(end), jwt(end.Add(time.Second))
	r := &reviewer{users: map[string]string{known: "system:serviceaccount:a:b", unknown: "system:serviceaccount:a:b"}}
	away := false
	g := identity.New(identity.Config{Reviewer: r, Members: echo{}, Now: func() time.Time { return now },
		Unreachable: func() bool { return away }})
	if _, err := authorize(g, bearing(known)); err != nil {
		t.Fatal(err)
	}
	expect := func(token string, want bool) {
		t.Helper()
		if _, err := authorize(g, bearing(token)); (err == nil) != want {
			t.Errorf("at %v: got %v, want permitted: %t", now.Sub(end), err, want)
		}
	}
	away, r.broken = true, errors.New("no answer")
	for _, past := range []time.Duration{-30 * time.Minute, time.Minute, 23 * time.Hour} {
		now = end.Add(past)
		expect(known, true)
		expect(unknown, false)
	}
	now = end.Add(24*time.Hour + time.Second)
	expect(known, false)
	// The API server is reachable again, and denies the expired token.
	now, away, r.broken = end.Add(2*time.Hour), false, nil
	delete(r.users, known)
	expect(known, false)
	away = true
	expect(known, false) // a denied token no longer counts as accepted
}

// dial returns the context of a call on a TLS connection, or nil if the handshake fails.
func dial(t *testing.T, server *tls.Config, client tls.Certificate) context.Context {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go func() {
		c := tls.Client(b, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{client}})
		_ = c.Handshake()
		_, _ = c.Read(make([]byte, 1)) // reads the alert
	}()
	conn := tls.Server(a, server)
	if conn.Handshake() != nil {
		return nil
	}
	return peer.NewContext(t.Context(), &peer.Peer{
		Addr: &net.TCPAddr{}, AuthInfo: credentials.TLSInfo{State: conn.ConnectionState()},
	})
}

func TestCertificate_AcceptedOneReconnectsForADayWhileTheAPIServerIsAway(t *testing.T) {
	start := time.Unix(1_000_000_000, 0)
	now, away := start, false
	issue := func(parent *tls.Certificate, end time.Time) tls.Certificate {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
		template := &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: serial.String()}, NotBefore: start.Add(-time.Hour),
			NotAfter: end, DNSNames: []string{"edge.example"},
			IsCA: parent == nil, BasicConstraintsValid: true,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		}
		from, signer := template, any(key)
		if parent != nil {
			from, signer = parent.Leaf, parent.PrivateKey
		}
		der, err := x509.CreateCertificate(rand.Reader, template, from, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		leaf, _ := x509.ParseCertificate(der)
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	}
	ca := issue(nil, start.Add(365*24*time.Hour))
	other := issue(nil, start.Add(365*24*time.Hour))
	end := start.Add(time.Hour)
	known, unknown, forged := issue(&ca, end), issue(&ca, end), issue(&other, start.Add(365*24*time.Hour))
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	g := identity.New(identity.Config{
		Reviewer: &reviewer{}, Members: echo{}, ClientCAs: roots, Now: func() time.Time { return now },
		Unreachable: func() bool { return away },
	})
	server := g.TLS(&tls.Config{Certificates: []tls.Certificate{issue(&ca, end)}})
	expect := func(what string, c tls.Certificate, want bool) {
		t.Helper()
		ctx := dial(t, server, c)
		if ctx == nil {
			if want {
				t.Errorf("%s at %v: the handshake fails", what, now.Sub(end))
			}
			return
		}
		if _, err := g.Authenticate(ctx); (err == nil) != want {
			t.Errorf("%s at %v: got %v, want permitted: %t", what, now.Sub(end), err, want)
		}
	}
	expect("known", known, true)
	expect("forged", forged, false)
	now = end.Add(time.Minute)
	expect("known", known, false)
	away = true
	expect("known", known, true)
	expect("unknown", unknown, false)
	expect("forged", forged, false)
	now = end.Add(-time.Minute)
	expect("another that has not expired", issue(&ca, end.Add(time.Hour)), true)
	now = end.Add(25 * time.Hour)
	expect("known", known, false)
}

// A token must be accepted for its whole lifetime, even if this process's wall clock is a year
// wrong.
func TestServiceAccountToken_AcceptedOneOutlivesAClockThatIsSet(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, offset := range map[string]time.Duration{
		"a year ahead": 365 * 24 * time.Hour, "a year behind": -365 * 24 * time.Hour,
	} {
		now, wall := now, now.Add(offset)
		claims := fmt.Sprintf(`{"exp":%d,"iat":%d,"aud":["penstock.dev"]}`, now.Add(time.Hour).Unix(), now.Unix())
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".sig"
		g := identity.New(identity.Config{
			Reviewer: &reviewer{users: map[string]string{token: "system:serviceaccount:a:b"}}, Members: echo{},
			Now: func() time.Time { return now }, Wall: func() time.Time { return wall },
		})
		c, err := g.Authenticate(bearing(token))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if next, err := c.Permitted("a/b"); err != nil || !next.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: permitted until %v (%v), want an hour", name, next, err)
		}
		now = now.Add(time.Hour)
		if _, err := c.Permitted("a/b"); err == nil {
			t.Errorf("%s: permitted for longer than it was issued for", name)
		}
	}
}
