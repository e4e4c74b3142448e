package authority_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/xds/authority"
)

func TestAuthority_ReplicasThatStartAtOnceShareOne(t *testing.T) {
	secrets := &secret{}
	a, b := start(t, secrets, time.Minute), start(t, secrets, time.Minute)
	for _, x := range []*authority.Authority{a, b} {
		if err := x.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Bundle(), b.Bundle()) || !slices.Equal(a.Keys("x"), b.Keys("x")) {
		t.Error("they do not agree")
	}
	if slices.Equal(a.Keys("x"), a.Keys("y")) {
		t.Error("one key for two purposes")
	}
	verify(t, a, b.Bundle())
	verify(t, b, a.Bundle())
}

// For two years, a proxy that gets each bundle 21 hours late must verify every certificate.
func TestAuthority_RenewalKeepsTrustOfLateProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := start(t, secrets, time.Hour)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		bundles := [][]byte{a.Bundle()} // bundles of the last 21 hours, the newest last
		given := a.Keys("x")[0]
		for range 2 * 365 * 8 {
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			verify(t, a, bundles[0])
			if keys := a.Keys("x"); !slices.Contains(keys, given) {
				t.Fatalf("a key that was handed out three hours ago is not accepted")
			} else {
				given = keys[0]
			}
			if bundles = append(bundles, a.Bundle()); len(bundles) > 7 {
				bundles = bundles[1:]
			}
		}
		if secrets.writes() < 5 {
			t.Errorf("the authority was not renewed: %d writes, want at least 5", secrets.writes())
		}
		if n := strings.Count(string(a.Bundle()), "BEGIN"); n > 3 {
			t.Errorf("the bundle grows: %d authorities, want at most 3", n)
		}
	})
}

func TestPickerKey_ReplacedAtOnceCountsForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := start(t, secrets, time.Minute)
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		old := a.Keys("picker")[0]
		another := &secret{}
		if err := start(t, another, time.Minute).Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		secrets.set(func(map[string][]byte) map[string][]byte { return another.get() })
		time.Sleep(2 * time.Minute)
		if keys := a.Keys("picker"); keys[0] == old || !slices.Contains(keys, old) {
			t.Errorf("after the Secret was replaced: got keys %v, want another than %s first, which stays", keys, old)
		}
		time.Sleep(25 * time.Hour)
		if keys := a.Keys("picker"); slices.Contains(keys, old) {
			t.Error("the old key counts for more than a day")
		}
	})
}

func start(t *testing.T, s authority.Secrets, interval time.Duration) *authority.Authority {
	t.Helper()
	return startAt(t, s, interval, time.Now)
}

func startAt(t *testing.T, s authority.Secrets, interval time.Duration, now func() time.Time) *authority.Authority {
	t.Helper()
	a := authority.New(authority.Config{Secrets: s, Names: []string{"penstock.system.svc"}, Interval: interval,
		Now: now})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return a
}

func verify(t *testing.T, a *authority.Authority, bundle []byte) {
	t.Helper()
	cert, err := a.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{
		DNSName: "penstock.system.svc", Roots: roots, CurrentTime: time.Now(),
	}); err != nil {
		t.Fatalf("at %v: got %v, want a certificate that the bundle verifies", time.Now(), err)
	}
}

type secret struct {
	mu               sync.Mutex
	data             map[string][]byte
	version, written int
	away             error // the API server's error
}

func (s *secret) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

func (s *secret) Read(context.Context) (map[string][]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return nil, "", s.away
	}
	if s.version == 0 {
		return nil, "", nil
	}
	return maps.Clone(s.data), fmt.Sprint(s.version), nil
}

func (s *secret) Write(_ context.Context, data map[string][]byte, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away != nil {
		return s.away
	}
	if s.version > 0 && version != fmt.Sprint(s.version) || s.version == 0 && version != "" {
		return authority.ErrChanged
	}
	s.data, s.version, s.written = data, s.version+1, s.written+1
	return nil
}
