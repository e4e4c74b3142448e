package picker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/liveness"
	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type unservedPools struct {
	discarded
	mu    sync.Mutex
	pools map[string]Unserved
}

func (u *unservedPools) Unserved(pool objectid.Target, unserved Unserved) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pools, pool.String())
	if unserved.Servers > 0 {
		u.pools[pool.String()] = unserved
	}
}

func (u *unservedPools) list() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return fmt.Sprint(u.pools)
}

func TestServing_DeadPoolIsReportedUntilItServesOrIsGone(t *testing.T) {
	var fails atomic.Bool
	fails.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	closed := httptest.NewServer(nil)
	closed.Close()
	nowhere := strings.TrimPrefix(closed.URL, "http://")
	u := &unservedPools{pools: map[string]Unserved{}}
	p := runPicker(t, Config{Troubles: u})
	reports := func(want ...string) {
		t.Helper()
		poll.Until(t, fmt.Sprint("reported are ", want), func() bool {
			got := u.list()
			for _, text := range want {
				if !strings.Contains(got, text) {
					return false
				}
			}
			return strings.Count(got, "ns/") == len(want)
		})
	}
	pools := []Pool{
		{ID: poolID("ns/one"), Strategy: "random", Endpoints: specs(address)},
		{ID: poolID("ns/two"), Endpoints: specs(address, nowhere)},
		{ID: poolID("ns/none")},
	}
	setPools(t, p, pools...)
	reports("ns/one:{1 [{"+address, "ns/two:{2 [{")
	if got := u.list(); !strings.Contains(got, "{"+nowhere+" connection refused") ||
		strings.Count(got, "{"+address+" /health answers 503") != 2 {
		t.Errorf("got %s, want each server with its cause", got)
	}
	fails.Store(false)
	reports()
	if s, ok := p.ServingOf("ns/two"); !ok || s.Serving != 1 || len(s.Out) != 1 || s.Out[0].Server != nowhere {
		t.Errorf("got %+v, want 1 serving, and %s out", s, nowhere)
	}
	fails.Store(true)
	reports("ns/one:{1 [{"+address, "ns/two:{2 ")
	pools[1].Gone = true
	setPools(t, p, pools...)
	reports("ns/one:{1 [{" + address)
	p.Remove(pools[0].ID)
	reports()
}

type changedServers struct {
	unservedPools
	lines []string
}

func (c *changedServers) Changed(pool objectid.Target, change Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, pool.String()+": "+change.String())
}

func (c *changedServers) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.lines)
}

type roundTrips func(*http.Request) (*http.Response, error)

func (f roundTrips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The picker reports once that a server has stopped, and once that it has served again for some
// time. It does not report a busy machine, on which probes of an idle pool get no answer for a
// while.
func TestServing_EachChangeOfAServerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped, busy atomic.Bool
		c := &changedServers{unservedPools: unservedPools{pools: map[string]Unserved{}}}
		p, err := New(Config{Troubles: c})
		if err != nil {
			t.Fatal(err)
		}
		setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs("10.0.0.1:80", "10.0.0.2:80")})
		probes := func(r *http.Request) (*http.Response, error) {
			if busy.Load() {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			if stopped.Load() && strings.HasPrefix(r.URL.Host, "10.0.0.2") {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}
		p.asks.liveness = liveness.New(liveness.Config{
			Transport: func(upstream.Protocol) http.RoundTripper { return roundTrips(probes) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = p.watchServers(ctx) }()
		after := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			if got := c.all(); !slices.Equal(got, want) || c.list() != "map[]" {
				t.Errorf("got %q and unserved %s, want %q", got, c.list(), want)
			}
		}
		after(5 * time.Second)
		busy.Store(true)
		after(1600 * time.Millisecond)
		busy.Store(false)
		after(5 * time.Second)
		const stops = "ns/pool: 10.0.0.2:80 does not serve: connection refused; 1 of 2 servers serve"
		const again = "ns/pool: 10.0.0.2:80 serves again; 2 of 2 servers serve"
		stopped.Store(true)
		after(2500*time.Millisecond, stops)
		stopped.Store(false)
		after(1100*time.Millisecond, stops)
		stopped.Store(true)
		after(5*time.Second, stops)
		stopped.Store(false)
		after(6*time.Second, stops, again)
	})
}

func TestServing_LinesAreBounded(t *testing.T) {
	var out []Out
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprint("s", i))
		out = append(out, Out{Server: names[i], Why: "gone"})
	}
	for want, got := range map[string]string{
		"s0 (gone), s1 (gone), s2 (gone) and 2 more do not serve; s0 serves again; 1 of 9 servers serve": Change{
			Servers: 9, Serving: 1, Stopped: out, Again: names[:1]}.String(),
		"s0 does not serve: gone; s0, s1, s2 and 2 more serve again; 1 of 9 servers serve": Change{
			Servers: 9, Serving: 1, Stopped: out[:1], Again: names}.String(),
		"s0, s1 serve again; 1 of 9 servers serve":   Change{Servers: 9, Serving: 1, Again: names[:2]}.String(),
		"s0 (gone), s1 (gone), s2 (gone)":            Named(out[:3], 3),
		"s0 (gone), s1 (gone), s2 (gone) and 6 more": Named(out, 9),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// While none of many pools has had a pick, the watch of their servers wakes the process only once a
// second.
func TestServing_UnusedPoolsOfManySeldomWakeTheProcess(t *testing.T) {
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	var pools []Pool
	for i := range maxUnused + 1 {
		pools = append(pools, Pool{ID: poolID(fmt.Sprint("ns/unused-", i))})
	}
	setPools(t, p, pools...)
	p.dueTurns(time.Now())
	if every := p.watch.pause(); every != unwatchedEvery {
		t.Errorf("it looks every %s before the first pick, want %s", every, unwatchedEvery)
	}
	p.pools.now.Load().byName["ns/unused-0"].snapshot.MarkUsed()
	p.dueTurns(time.Now())
	if every := p.watch.pause(); every != watchEvery {
		t.Errorf("it looks every %s after a pick, want %s", every, watchEvery)
	}
}

// With more than maxUnused pools, the picker watches no pool without a pick, even if it watched the
// pool before.
func TestServing_PoolsWithoutPicksAreNotWatchedOnceThereAreMany(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	dead := specs(strings.TrimPrefix(closed.URL, "http://"))
	u := &unservedPools{pools: map[string]Unserved{}}
	p := runPicker(t, Config{Troubles: u})
	pools := []Pool{{ID: poolID("ns/unused"), Endpoints: dead}, {ID: poolID("ns/used"), Endpoints: dead}}
	setPools(t, p, pools...)
	poll.Until(t, "both are reported", func() bool { return strings.Count(u.list(), "ns/") == 2 })
	p.pools.now.Load().byName["ns/used"].snapshot.MarkUsed()
	for i := range maxUnused {
		pools = append(pools, Pool{ID: poolID(fmt.Sprint("ns/more-", i)), Endpoints: dead})
	}
	setPools(t, p, pools...)
	poll.Until(t, "the used one is reported alone", func() bool {
		return strings.Count(u.list(), "ns/") == 1 && strings.Contains(u.list(), "ns/used:")
	})
	if all := p.Serving(); len(all) != 1 || all[0].Pool != pools[1].ID {
		t.Errorf("watched are %+v, want the used pool alone", all)
	}
}
