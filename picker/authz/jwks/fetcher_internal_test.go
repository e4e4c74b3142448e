package jwks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ed returns a set with one Ed25519 key.
func ed(id string) string {
	const public = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" // RFC 8037, appendix A.2
	return fmt.Sprintf(`{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": %q, "x": %q}]}`, id, public)
}

// server answers fetches in virtual time.
type server struct {
	mu    sync.Mutex
	text  string // "" means an error
	hangs bool
	begun []time.Time
}

func (s *server) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *server) load(ctx context.Context, _ Source) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, time.Now())
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if s.text == "" {
		return nil, errors.New("down")
	}
	return []byte(s.text), nil
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.begun)
}

var idp = Source{Issuer: "https://idp.example", URI: "https://idp.example/keys"}

func running(t *testing.T, s *server, changed func()) *Fetcher {
	t.Helper()
	f := New(Config{Now: time.Now, Changed: changed})
	f.load = s.load
	f.Follow([]Source{idp})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return f
}

func has(f *Fetcher, id string) bool {
	s := f.Get(idp)
	if s == nil {
		return false
	}
	_, known := s.Find(id, "EdDSA")
	return known
}

// advance advances the virtual clock.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestFetcher_KeepsTheLastGoodSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{text: ed("one")}
		changes := 0
		f := running(t, s, func() { changes++ })
		if !has(f, "one") || changes != 1 {
			t.Fatal("no set at first, or", changes, "changes")
		}
		first := f.Get(idp)
		advance(2 * refreshInterval)
		if f.Get(idp) != first || changes != 1 || s.count() < 2 {
			t.Errorf("an equal answer replaces the set: %d changes, %d fetches, want 1 and at least 2",
				changes, s.count())
		}
		for _, bad := range []string{"", "<html>", `{"keys": []}`} {
			s.set(bad)
			advance(refreshInterval)
			if p, kept := f.Problem(idp); !has(f, "one") || p == nil || !kept {
				t.Errorf("after %q: problem %v, kept %v; want a problem, and set one kept", bad, p, kept)
			}
		}
		s.set(ed("two"))
		advance(refreshInterval)
		if p, _ := f.Problem(idp); has(f, "one") || !has(f, "two") || p != nil {
			t.Error("changed keys are not in force:", p)
		}
	})
}

// Unknown keys in tokens cause at most one fetch in ten seconds.
func TestFetcher_RefreshesAtMostOnceInTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{text: ed("one")}
		f := running(t, s, nil)
		ask := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return f.Refresh(ctx, idp)
		}
		for range 100 {
			ask()
		}
		if s.count() != 1 {
			t.Errorf("%d fetches at once, want 1", s.count())
		}
		s.set(ed("two"))
		advance(minInterval)
		if !ask() || !has(f, "two") || s.count() != 2 {
			t.Errorf("the key is not fetched again: %d fetches, want 2", s.count())
		}
		begun := time.Now()
		for time.Since(begun) < time.Minute {
			ask()
			advance(100 * time.Millisecond)
		}
		if got := s.count(); got < 7 || got > 9 {
			t.Errorf("%d fetches in a minute, want 7 to 9", got)
		}
		if f.Refresh(t.Context(), Source{URI: "https://other.example"}) {
			t.Error("a source that is not followed was fetched")
		}
	})
}

func TestFetcher_BacksOffFromAServerThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		f := running(t, s, nil)
		if p, kept := f.Problem(idp); p == nil || kept || f.Get(idp) != nil {
			t.Error("before the first set:", p, kept)
		}
		advance(time.Hour)
		if got := s.count(); got < 12 || got > 18 {
			t.Errorf("%d fetches in an hour, want 12 to 18", got)
		}
		s.set(ed("one"))
		advance(refreshInterval)
		if p, _ := f.Problem(idp); !has(f, "one") || p != nil {
			t.Error("not resolved:", p)
		}
	})
}

// A server that hangs delays no other source, and Refresh waits only until its context ends.
func TestFetcher_HangingServerDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{hangs: true}
		f := running(t, s, nil)
		other := Source{Issuer: "x", Inline: ed("inline")}
		f.Follow([]Source{idp, other})
		if f.Get(other) == nil || f.Pending(other) || !f.Pending(idp) {
			t.Error("an inline set waits, or the other does not")
		}
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if f.Refresh(ctx, idp) || time.Since(begun) != time.Second {
			t.Errorf("Refresh returned after %v, want false after 1s", time.Since(begun))
		}
	})
}

func TestFetcher_SourceWithANewTokenKeepsItsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{text: ed("one")}
		f := running(t, s, nil)
		s.set("")
		next, another := idp, idp
		next.Token, another.CA = "new", "another CA"
		f.Follow([]Source{next, another, {Issuer: "x", Inline: "nonsense"}})
		synctest.Wait()
		if f.Get(next) == nil || f.Get(another) != nil || f.Get(idp) != nil {
			t.Error("got sets:", f.Get(next), f.Get(another), f.Get(idp))
		}
		if p, kept := f.Problem(Source{Issuer: "x", Inline: "nonsense"}); p == nil || kept {
			t.Error("an invalid inline set has problem", p)
		}
	})
}
