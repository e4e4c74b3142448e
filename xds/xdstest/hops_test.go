package xdstest_test

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// A hop is a virtual host behind an internal listener. spills maps clusters to hops among their
// endpoints, and hops maps a hop to the cluster behind it.
func hopWorld(t *testing.T, routes [2]string, spills, hops map[string]string) map[resource.Ref]*resource.Resource {
	out := map[resource.Ref]*resource.Resource{}
	put := func(list ...*resource.Resource) {
		for _, r := range list {
			out[r.Ref] = r
		}
	}
	cluster := func(name string) {
		put(xdstest.Cluster(t, name, 0), xdstest.Endpoints(t, name, 2000))
		if hop := spills[name]; hop != "" {
			put(xdstest.EndpointsWithHops(t, name, []string{hop}, 2000))
		}
	}
	for i, c := range routes {
		name := []string{"one", "two"}[i]
		put(xdstest.Listener(t, name, uint32(1000+i), name), xdstest.Routes(t, name, c))
		cluster(c)
	}
	for c := range maps.Values(hops) {
		cluster(c)
	}
	if len(hops) > 0 {
		l, rc := xdstest.Hops(t, hops)
		put(l, rc)
	}
	return out
}

// A removed hop that endpoints still name keeps its own clusters, but no other clusters of the old
// routes.
func TestHops_ThoseOfChangedPoolsLeaveWithThem(t *testing.T) {
	worlds := []map[resource.Ref]*resource.Resource{
		hopWorld(t, [2]string{"p", "q"}, map[string]string{"p": "hop-c", "q": "hop-y"},
			map[string]string{"hop-c": "c", "hop-y": "y"}),
		// q is removed, but its hop stays for the linger timeout. c, which is behind a hop, begins
		// to name a hop.
		hopWorld(t, [2]string{"p", "c"}, map[string]string{"p": "hop-c", "c": "hop-b"},
			map[string]string{"hop-c": "c-last", "hop-b": "b"}),
		// Then c is removed.
		hopWorld(t, [2]string{"z", "z"}, map[string]string{"z": "hop-w"}, map[string]string{"hop-w": "w"}),
	}
	for _, sotw := range []bool{false, true} {
		store := storeOf(worlds[0])
		s := xdstest.Simulate(t, xdstest.FakeConfig{Node: "a", StateOfTheWorld: sotw}, store,
			publish.Config{Watchdog: time.Hour, Linger: time.Minute})
		r := rand.New(rand.NewPCG(1, 0))
		s.Settle(r)
		for i, next := range worlds[1:] {
			upserts, removes := difference(worlds[i], next)
			store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts, Removes: removes})
			for range 2000 { // only Settle moves the clock
				s.Step(r)
			}
			// Requests may still be on their way to q. Without the hop they could get 503.
			q := endpoints("q")
			if v, _ := s.Has(q); v != worlds[0][q].Version {
				t.Errorf("state of the world %v, after change %d: q has lost its hop before the linger timeout is over",
					sotw, i+1)
			}
		}
		s.Settle(r)
		d := newDial()
		if wrong := outOfSync(s, worlds[2], &d); wrong != "" || len(s.Violations()) > 0 {
			t.Errorf("state of the world %v: got %s, violations %v; want it in sync, and none",
				sotw, wrong, s.Violations())
		}
	}
}

// Clusters behind hops and the internal listener must not keep each other once no route needs a
// hop. But the listener must stay while a request may pass from one hop to the next.
func TestHops_TheirListenerLeavesWithClustersBehindHopsThatLeadToHops(t *testing.T) {
	last := hopWorld(t, [2]string{"z", "z"}, nil, nil)
	for name, world := range map[string]map[resource.Ref]*resource.Resource{
		"one after the other": hopWorld(t, [2]string{"p", "q"}, map[string]string{"p": "hop-c", "c": "hop-b"},
			map[string]string{"hop-c": "c", "hop-b": "b"}),
		"to each other": hopWorld(t, [2]string{"p", "q"}, map[string]string{"p": "hop-c", "c": "hop-p"},
			map[string]string{"hop-c": "c", "hop-p": "p"}),
	} {
		for _, sotw := range []bool{false, true} {
			store := storeOf(world)
			config := publish.Config{Watchdog: time.Hour, Linger: time.Minute, Drain: 10 * time.Minute}
			s := xdstest.Simulate(t, xdstest.FakeConfig{Node: "a", StateOfTheWorld: sotw}, store, config)
			r := rand.New(rand.NewPCG(1, 0))
			s.Settle(r)
			begin := s.Now
			upserts, removes := difference(world, last)
			store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts, Removes: removes})
			left := time.Time{}
			for s.Now.Sub(begin) < time.Hour {
				for range 500 {
					s.Step(r)
				}
				if _, has := s.Has(resource.Ref{Type: resource.Listener, Name: xdstest.HopListener}); !has &&
					left.IsZero() {
					left = s.Now
				}
				s.Now = s.Now.Add(30 * time.Second)
			}
			if after := left.Sub(begin); after < config.Linger+config.Drain {
				t.Errorf("clusters that lead %s, state of the world %v: the listener of hops left after %s, want at "+
					"least %s", name, sotw, after, config.Linger+config.Drain)
			}
			d := newDial()
			if wrong := outOfSync(s, last, &d); wrong != "" || len(s.Violations()) > 0 {
				t.Errorf("clusters that lead %s, state of the world %v: got %s, violations %v; want it in sync, and "+
					"none", name, sotw, wrong, s.Violations())
			}
		}
	}
}
