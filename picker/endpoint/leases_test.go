package endpoint

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	addrA = netip.MustParseAddrPort("10.0.0.1:80")
	addrB = netip.MustParseAddrPort("10.0.0.2:80")
)

// twoEndpoints returns two endpoints of a pool, which limits its requests in flight if slots is
// set.
func twoEndpoints(slots *Slots) (r *Registry, first, second *Endpoint) {
	r = NewRegistry(Config{Jitter: func() float64 { return 0 }})
	s := r.Snapshot(Metrics{Off: true}, slots, []Spec{{Addr: addrB}, {Addr: addrA}})
	return r, &s.Endpoints[0], &s.Endpoints[1] // sorted by address
}

func TestLease_ReleasedOnceAndOnlyByOwner(t *testing.T) {
	_, first, second := twoEndpoints(nil)
	mine, other := NewLeases("me", time.Hour), NewLeases("other", time.Hour)
	lease := mine.Open(first, Holder{}, Work{}, 0, time.Now())
	if other.Find(lease.ID()) != nil || mine.Find("me.zzz") != nil || mine.Find("nonsense") != nil ||
		mine.Find("me") != nil || mine.Find(lease.ID()) != lease {
		t.Fatal("leases are confused")
	}
	lease.MoveTo(second.Load(), time.Now())
	if first.State().InFlight != 0 || second.State().InFlight != 1 {
		t.Error("the request does not count at the endpoint that serves it")
	}
	if !lease.Release() || lease.Release() {
		t.Error("not released exactly once")
	}
	if n := second.State().InFlight; n != 0 || mine.Len() != 0 || mine.Find(lease.ID()) != nil {
		t.Errorf("%d requests in flight after the end, %d leases; want none", n, mine.Len())
	}
}

func TestLease_LivesAsLongAsItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, first, _ := twoEndpoints(nil)
		leases := NewLeases("me", 4*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = leases.Run(ctx) })
		renewed, silent, streamed := leases.Open(first, Holder{}, Work{}, 0, time.Now()),
			leases.Open(first, Holder{}, Work{}, 0, time.Now()), leases.Open(first, Holder{}, Work{}, 0, time.Now())
		streamed.KeepUntilEnd()
		streamed.Renew(time.Now())
		for range 3 {
			time.Sleep(2 * time.Second)
			renewed.Renew(time.Now())
		}
		if leases.Find(silent.ID()) != nil || leases.Find(renewed.ID()) == nil || leases.Find(streamed.ID()) == nil ||
			first.State().InFlight != 2 {
			t.Errorf("after 6 s: %d in flight, want 2: the renewed and the streamed one", first.State().InFlight)
		}
		time.Sleep(5 * time.Second)
		if leases.Find(renewed.ID()) != nil || leases.Find(streamed.ID()) == nil || first.State().InFlight != 1 {
			t.Errorf("after its Envoy is gone: %d in flight, want 1, the streamed one", first.State().InFlight)
		}
		cancel()
		run.Wait()
	})
}

// A report of an expired lease counts the request again; a report of a released lease does not.
func TestLease_OnlyExpiredOneIsResumed(t *testing.T) {
	_, first, second := twoEndpoints(nil)
	leases := NewLeases("me", time.Second)
	holder := Holder{Gateway: "ns/gw", Pool: "ns/pool"}
	ended, expired := leases.Open(first, holder, Work{}, 0, time.Now()),
		leases.Open(first, holder, Work{}, 0, time.Now())
	at := func(pool string) *Load {
		if pool != "ns/pool" {
			t.Errorf(`the lease is of pool %q, want "ns/pool"`, pool)
		}
		return second.Load()
	}
	ended.Release()
	now := time.Since(processStart) + 2*time.Second
	leases.expire(now)
	if leases.Len() != 0 {
		t.Fatal("not expired")
	}
	for _, id := range []string{ended.ID(), "other.1", "me.zz", "me."} {
		if leases.Resume(id, "ns/gw", at, time.Now()) != nil {
			t.Errorf("%s is resumed", id)
		}
	}
	if leases.Resume(expired.ID(), "ns/other", at, time.Now()) != nil ||
		leases.Resume(expired.ID(), "ns/gw", func(string) *Load { return nil }, time.Now()) != nil {
		t.Error("resumed by another Gateway, or at another pool's endpoint")
	}
	again := leases.Resume(expired.ID(), "ns/gw", at, time.Now())
	if again == nil || again.ID() != expired.ID() || again.Holder() != holder || second.State().InFlight != 1 ||
		leases.Resume(expired.ID(), "ns/gw", at, time.Now()) != nil {
		t.Error("a lease that expired is not resumed exactly once")
	}
	leases.expire(now + resumable/2)
	leases.expire(now + resumable)
	if len(leases.expired) != 1 {
		t.Error("a lease that expired again is forgotten a minute after the first time")
	}
	leases.expire(now + 2*resumable)
	if leases.Resume(expired.ID(), "ns/gw", at, time.Now()) != nil || len(leases.expired) > 0 {
		t.Error("an expired lease is known for too long")
	}
}

func TestLease_OfPickerThatIsGoneIsAdopted(t *testing.T) {
	_, first, _ := twoEndpoints(nil)
	leases := NewLeases("me", time.Second)
	lease := leases.Adopt("gone.1", Holder{}, first.Load(), time.Now())
	if leases.Adopt("gone.1", Holder{}, first.Load(), time.Now()) != lease || leases.Find("gone.1") != lease ||
		first.State().InFlight != 1 || leases.Len() != 1 {
		t.Error("not counted once")
	}
	for _, id := range []string{"", "gone", "gone.", string(make([]byte, 80)) + ".1"} {
		if leases.Adopt(id, Holder{}, first.Load(), time.Now()) != nil {
			t.Errorf("%q is adopted", id)
		}
	}
	leases.expire(time.Since(processStart) + 2*time.Second)
	if first.State().InFlight != 0 || leases.Find("gone.1") != nil || leases.Len() != 0 {
		t.Error("not expired")
	}
}

// One Gateway's open leases are limited, and other Gateways are not affected.
func TestLease_BoundedPerGateway(t *testing.T) {
	_, first, _ := twoEndpoints(nil)
	leases := NewLeases("me", time.Second)
	greedy, other := Holder{Gateway: "ns/greedy"}, Holder{Gateway: "ns/other"}
	for !leases.Bounded(greedy.Gateway) {
		leases.Open(first, greedy, Work{}, 0, time.Now())
	}
	if leases.Len() != MaxOpen || leases.Adopt("gone.1", greedy, first.Load(), time.Now()) != nil {
		t.Errorf("%d leases of one Gateway, want %d", leases.Len(), MaxOpen)
	}
	if leases.Bounded(other.Gateway) || leases.Adopt("gone.1", other, first.Load(), time.Now()) == nil {
		t.Error("another Gateway gets no lease")
	}
	leases.expire(time.Since(processStart) + 2*time.Second)
	if leases.Bounded(greedy.Gateway) || leases.Len() != 0 || first.State().InFlight != 0 {
		t.Error("the bound holds after the leases have expired")
	}
}

func TestLimit_HoldsForConcurrentPicks(t *testing.T) {
	slots := &Slots{}
	r, first, second := twoEndpoints(slots)
	leases := NewLeases("me", time.Hour)
	r.SetElsewhere(addrA, Elsewhere{InFlight: 2}, time.Now())
	var opened atomic.Int64
	var picks sync.WaitGroup
	for range 50 {
		picks.Go(func() {
			if leases.Open(first, Holder{}, Work{}, 5, time.Now()) != nil {
				opened.Add(1)
			}
		})
	}
	picks.Wait()
	if opened.Load() != 3 || first.State().InFlight != 5 {
		t.Errorf("%d opened beside the 2 of a peer, %d in flight; the limit is 5, want 3 and 5", opened.Load(),
			first.State().InFlight)
	}
	leases.Open(second, Holder{}, Work{}, 5, time.Now()).Release()
	counts := map[netip.AddrPort]int64{}
	for _, c := range r.Counts(time.Now()) {
		counts[c.Addr] = c.InFlight
	}
	if diff := cmp.Diff(map[netip.AddrPort]int64{addrA: 3, addrB: 0}, counts,
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if more := r.Counts(time.Now()); len(more) > 0 {
		t.Errorf("published twice: %v, want none", more)
	}
}

func TestLimit_PickWaitsForLateReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &Slots{}
		r, first, _ := twoEndpoints(slots)
		leases := NewLeases("me", time.Hour)
		try := func() bool { return leases.Open(first, Holder{}, Work{}, 1, time.Now()) != nil }
		if !try() {
			t.Fatal("full at first")
		}
		began := time.Now()
		if slots.Wait(t.Context(), 250*time.Millisecond, try) || time.Since(began) != 250*time.Millisecond {
			t.Errorf("a full pool: got a server, or returned after %s; want none after 250ms", time.Since(began))
		}
		for _, end := range []func(){
			// this process's request ends
			func() { leases.Find("me.1").Release() },
			// a request ends here, but a peer's request takes its place
			func() { r.SetElsewhere(addrA, Elsewhere{InFlight: 1}, time.Now()); leases.Find("me.2").Release() },
			// the peer's request ends
			func() { r.SetElsewhere(addrA, Elsewhere{InFlight: 0}, time.Now()) },
		} {
			began = time.Now()
			time.AfterFunc(100*time.Millisecond, end)
			ok := slots.Wait(t.Context(), 250*time.Millisecond, try)
			if peer := r.peers[addrA].InFlight > 0; ok == peer || !peer && time.Since(began) != 100*time.Millisecond {
				t.Errorf("got %t after %s, want %t, after 100ms if true", ok, time.Since(began), !peer)
			}
		}
		var waiting sync.WaitGroup
		for range 3 { // each freed place goes to one waiting pick
			waiting.Go(func() {
				if !slots.Wait(t.Context(), time.Second, try) {
					t.Error("a pick was not notified")
				}
			})
		}
		for range 3 {
			synctest.Wait()
			for _, lease := range leases.all() {
				lease.Release()
			}
		}
		waiting.Wait()
		if len(slots.waiting) > 0 {
			t.Error("a pick waits forever")
		}
	})
}

// Picks of a pool may wait for different servers. The end of a request must reach the pick that
// waits for its server.
func TestLimit_EndReachesThePickThatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := &Slots{}
		_, first, second := twoEndpoints(slots)
		leases := NewLeases("me", time.Hour)
		opens := func(e *Endpoint) func() bool {
			return func() bool { return leases.Open(e, Holder{}, Work{}, 1, time.Now()) != nil }
		}
		if !opens(first)() || !opens(second)() {
			t.Fatal("full at first")
		}
		began := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() { slots.Wait(t.Context(), time.Second, opens(first)) })
		synctest.Wait() // this pick waits longest
		time.AfterFunc(time.Millisecond, func() { leases.Find("me.2").Release() })
		if !slots.Wait(t.Context(), time.Second, opens(second)) || time.Since(began) != time.Millisecond {
			t.Errorf("a server that is free after 1 ms is taken after %s, want 1ms", time.Since(began))
		}
		leases.Find("me.1").Release()
		waiting.Wait()
	})
}

func (l *Leases) all() (out []*Lease) {
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		for _, lease := range shard.open {
			out = append(out, lease)
		}
		shard.mu.Unlock()
	}
	return out
}
