package schedule

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// picked returns the servers that a new picker chooses for each adapter, in several rounds of one
// request for each adapter.
func picked(t *testing.T, list []endpoint.Endpoint, adapters, rounds int) map[string][]byte {
	t.Helper()
	s, leases, all := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour), map[string][]byte{}
	for i := range 2 * adapters { // an adapter counts from its second request on
		s.Describe(&Request{Model: fmt.Sprint("adapter-", i%adapters)}, epoch, list, nil)
	}
	for range rounds {
		for _, i := range rand.Perm(adapters) {
			r := Request{Model: fmt.Sprint("adapter-", i), Tokens: 100}
			c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
			leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch).Release()
			if n := number(&c[0]); !slices.Contains(all[r.Model], n) {
				all[r.Model] = append(all[r.Model], n)
			}
		}
	}
	return all
}

// Two pickers that neither communicate nor read metrics pages choose the same server for an
// adapter. So the slots of all servers suffice.
func TestAdapter_PickersThatShareNothingLoadItAtTheSameServers(t *testing.T) {
	blind := slices.Repeat([]server{{stale: true}}, 8)
	one, other := picked(t, endpoints(t, blind...), 24, 4), picked(t, endpoints(t, blind...), 24, 4)
	used := map[byte]bool{}
	for model, at := range one {
		used[at[0]] = true
		if len(at) > 1 || !slices.Equal(at, other[model]) {
			t.Errorf("%s is loaded by servers %v of one picker, and %v of the other one; want one server, the same",
				model, at, other[model])
		}
	}
	if len(used) < 6 {
		t.Errorf("24 adapters are loaded by servers %v of 8, want at least 6", slices.Sorted(maps.Keys(used)))
	}
}

// If many requests need one adapter, servers that are not its homes also load it. A server that has
// the adapter adds no cost for it.
func TestAdapter_ManyRequestsFindServersBesideItsHome(t *testing.T) {
	list := endpoints(t, slices.Repeat([]server{{stale: true}}, 8)...)
	s, leases, used := strategy(t, Options{}), endpoint.NewLeases("me", time.Hour), map[byte]bool{}
	for i := range 40 {
		s.Describe(&Request{Model: fmt.Sprint("adapter-", i)}, epoch, list, nil)
	}
	r := Request{Model: "adapter-7", Tokens: 500}
	away := 0
	for _, v := range s.Describe(&r, epoch, list, nil) {
		if v.Costs["adapter"] == loadAdapter+awaitSlot {
			away++
		}
	}
	if away != 7 {
		t.Errorf("%d of 8 servers are away from the adapter's home, want 7", away)
	}
	for range 60 {
		c := s.Rank(&r, epoch, list, nil, 1, &Scratch{})
		leases.Open(c[0].Endpoint, endpoint.Holder{}, c[0].Work(&r), 0, epoch)
		used[number(&c[0])] = true
	}
	if len(used) < 4 {
		t.Errorf("60 requests in flight are at servers %v, want at least 4", slices.Sorted(maps.Keys(used)))
	}
	for i, v := range s.Describe(&r, epoch, list, nil) {
		if used[byte(i)] && v.Costs["adapter"] != 0 {
			t.Errorf("server %d has the adapter, which costs %v s there, want 0", i, v.Costs["adapter"])
		}
	}
}

// If each server has room for all adapters, all servers are homes. Failing servers do not change
// homes.
func TestAdapter_HomesAreAsManyAsSlotsAllow(t *testing.T) {
	list := endpoints(t, slices.Repeat([]server{{}}, 8)...)
	for i := range list {
		list[i].BeginScrape().Succeed(endpoint.Reading{
			Adapters: &endpoint.Adapters{Running: []string{fmt.Sprint("adapter-", i)}, Max: 9},
		}, epoch)
	}
	away := func(s *Strategy, model string) (servers []int) {
		for i, v := range s.Describe(&Request{Model: model}, epoch, list, nil) {
			if v.Costs["adapter"] > loadAdapter {
				servers = append(servers, i)
			}
		}
		return servers
	}
	s := strategy(t, Options{})
	for i := range 8 {
		if got := away(s, fmt.Sprint("adapter-", i)); len(got) > 0 {
			t.Errorf("adapter-%d is away from home at servers %v, which have room, want none", i, got)
		}
	}
	for i := range 80 {
		s.load.adapters.learn(fmt.Sprint("more-", i))
		away(s, fmt.Sprint("more-", i))
	}
	got := away(s, "more-5")
	if len(got) != 7 {
		t.Fatalf("88 adapters at 72 slots: away from home at servers %v, want 7", got)
	}
	home := 0
	for slices.Contains(got, home) {
		home++
	}
	for range 5 {
		list[home].Load().RecordFailed("a test", epoch)
	}
	if got = away(s, "more-5"); len(got) != 7 || !slices.Contains(got, home) {
		t.Errorf("the home fails requests: away from home at servers %v, want others beside %d", got, home)
	}
}
