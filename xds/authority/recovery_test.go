package authority_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/xds/authority"
)

// If change returns nil, set deletes the Secret.
func (s *secret) set(change func(data map[string][]byte) map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.data = change(maps.Clone(s.data)); s.data == nil {
		s.version = 0
		return
	}
	s.version++
}

func (s *secret) get() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.data)
}

func ready(t *testing.T, a *authority.Authority) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAuthority_ExpiredAtStartIsReplacedWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := authority.New(authority.Config{Secrets: secrets, Names: []string{"penstock.system.svc"}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = a.Run(ctx) }()
		ready(t, a)
		old := a.Bundle()
		stop()
		time.Sleep(5 * 365 * 24 * time.Hour) // no process runs
		b := start(t, secrets, time.Minute)
		ready(t, b)
		verify(t, b, b.Bundle())
		if !bytes.Contains(b.Bundle(), old) {
			t.Error("what another process may still present is not trusted")
		}
		time.Sleep(8 * 24 * time.Hour)
		if bytes.Contains(b.Bundle(), old) {
			t.Error("the expired authority stays for ever")
		}
		verify(t, b, b.Bundle())
	})
}

func TestAuthority_DeletedOrDamagedSecretIsRestoredByAProcessThatHasIt(t *testing.T) {
	for name, change := range map[string]func(map[string][]byte) map[string][]byte{
		"deleted":     func(map[string][]byte) map[string][]byte { return nil },
		"emptied":     func(map[string][]byte) map[string][]byte { return map[string][]byte{} },
		"damaged":     func(d map[string][]byte) map[string][]byte { d["tls.crt"] = []byte("nonsense"); return d },
		"without key": func(d map[string][]byte) map[string][]byte { delete(d, "tls.key"); return d },
		"next":        func(d map[string][]byte) map[string][]byte { d["next.crt"] = []byte("nonsense"); return d },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				secrets := &secret{}
				a, b := start(t, secrets, 10*time.Second), start(t, secrets, 10*time.Second)
				ready(t, a)
				ready(t, b)
				data, bundle, key := secrets.get(), a.Bundle(), a.Keys("x")
				secrets.set(change)
				time.Sleep(time.Minute)
				for _, x := range []*authority.Authority{a, b} {
					verify(t, x, bundle)
					if !bytes.Equal(x.Bundle(), bundle) || !slices.Equal(x.Keys("x"), key) {
						t.Error("the authority is another one")
					}
				}
				if !maps.EqualFunc(secrets.get(), data, bytes.Equal) {
					t.Error("the Secret is not as before")
				}
			})
		})
	}
}

func TestAuthority_SecretThatIsDamagedAtStartIsReplacedWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := authority.New(authority.Config{Secrets: secrets, Names: []string{"penstock.system.svc"}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = a.Run(ctx) }()
		ready(t, a)
		old := a.Bundle()
		stop()
		synctest.Wait()
		secrets.set(func(d map[string][]byte) map[string][]byte { d["tls.key"] = []byte("nonsense"); return d })
		written := secrets.writes()
		b := start(t, secrets, 10*time.Second)
		time.Sleep(15 * time.Second)
		if secrets.writes() != written {
			t.Error("it is replaced before a process that has it may restore it")
		}
		time.Sleep(15 * time.Second)
		ready(t, b)
		verify(t, b, b.Bundle())
		if !bytes.Contains(b.Bundle(), old) {
			t.Error("what another process may still present is not trusted")
		}
	})
}

func TestAuthority_APIServerThatIsAwayForDaysEndsNoCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secret{}
		a := start(t, secrets, 10*time.Minute)
		ready(t, a)
		bundle := a.Bundle()
		time.Sleep(15 * time.Hour) // the certificate is nearly due for renewal
		secrets.mu.Lock()
		secrets.away = errors.New("no answer")
		secrets.mu.Unlock()
		for range 3 * 24 {
			time.Sleep(time.Hour)
			verify(t, a, bundle)
		}
	})
}

// Proxies have the right time, but get each bundle late.
func TestAuthority_ClockAYearAheadAndBackKeepsTrust(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, age := range map[string]time.Duration{
		"of a new authority": 0, "of one that is to be renewed": 200 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				secrets := &secret{}
				var ahead atomic.Int64
				wrong := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				a, b := startAt(t, secrets, time.Hour, wrong), start(t, secrets, time.Hour)
				ready(t, a)
				ready(t, b)
				time.Sleep(age)
				bundle, key := a.Bundle(), a.Keys("x")[0]
				for _, offset := range []time.Duration{year, 0, -year, 0} {
					ahead.Store(int64(offset))
					for range 3 * 24 {
						synctest.Wait()
						for _, x := range []*authority.Authority{a, b} {
							verify(t, x, bundle)
							if !slices.Contains(x.Keys("x"), key) {
								t.Fatal("the key that proxies have is not accepted")
							}
						}
						mutual(t, a, b)
						bundle, key = b.Bundle(), b.Keys("x")[0]
						time.Sleep(time.Hour)
					}
				}
			})
		})
	}
}

func mutual(t *testing.T, a, b *authority.Authority) {
	t.Helper()
	const name = "penstock.system.svc"
	for _, pair := range [][2]*authority.Authority{{a, b}, {b, a}} {
		server, _ := pair[0].Mutual(name)
		_, client := pair[1].Mutual(name)
		if err := shake(server, client); err != nil {
			t.Fatal(err)
		}
	}
}
