package picker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
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
	if unserved != (Unserved{}) {
		u.pools[pool.String()] = unserved
	}
}

func (u *unservedPools) list() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return fmt.Sprint(u.pools)
}

// A pool without a serving server is reported until one serves, or the pool is gone.
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
	reports("ns/one:{1 "+address, "ns/two:{2 ")
	fails.Store(false)
	reports()
	if s, ok := p.ServingOf("ns/two"); !ok || s.Serving != 1 || len(s.Out) != 1 || s.Out[0].Server != nowhere {
		t.Errorf("%+v", s)
	}
	fails.Store(true)
	reports("ns/one:{1 "+address, "ns/two:{2 ")
	pools[1].Gone = true
	setPools(t, p, pools...)
	reports("ns/one:{1 " + address)
	p.Remove(pools[0].ID)
	reports()
}

// A process whose pools have no picks looks for one once a second.
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

// Of more than maxUnused pools, those without a pick are not watched, although the first ones
// arrive while there are few.
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
