package delivery

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// peer implements Names for one peer, which follows when the test calls follow.
type peer struct {
	mu        sync.Mutex
	published map[objectid.Target]string
	followed  map[objectid.Target]string
	late      bool
	changed   chan struct{}
}

func (p *peer) Publish(digests map[objectid.Target]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pool, d := range digests {
		p.published[pool] = d
	}
}

func (p *peer) Retract(...objectid.Target) {}

func (p *peer) Behind(pool objectid.Target, digest string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d, ok := p.followed[pool]; !ok || d == digest || p.late {
		return nil
	}
	return []string{"peer"}
}

func (p *peer) MarkLate(peers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = p.late || len(peers) > 0
}

func (p *peer) Changed() <-chan struct{} { return p.changed }

func (p *peer) follow() {
	p.mu.Lock()
	for pool, d := range p.published {
		p.followed[pool] = d
	}
	p.late = false
	p.mu.Unlock()
	poke(p.changed)
}

type nowhere struct{ named map[objectid.Target]int }

func (n nowhere) Update(p picker.Pool) error                    { n.named[p.ID] = len(p.Endpoints); return nil }
func (nowhere) Remove(objectid.Target)                          {}
func (nowhere) EndpointsKnown(context.Context, ...string) error { return nil }
func (n nowhere) size(pool string) int                          { return n.named[objectid.MustParseTarget("ns/"+pool)] }

const heldGateway = "ns/gw"

type holdRig struct {
	t     *testing.T
	peer  *peer
	holds *Holds
	cache *cache.Cache
	named nowhere
	d     *Delivery
	rev   uint64
}

func newHoldRig(t *testing.T) *holdRig {
	r := &holdRig{t: t, cache: cache.New(cache.Config{}), named: nowhere{map[objectid.Target]int{}}}
	r.peer = &peer{published: map[objectid.Target]string{}, followed: map[objectid.Target]string{},
		changed: make(chan struct{}, 1)}
	r.holds = NewHolds(HoldsConfig{Cache: NewLinger(r.cache, time.Minute, slog.New(slog.DiscardHandler)),
		Names: r.peer})
	pools := NewPools(PoolsConfig{Picker: r.named, Envoys: r.named, Holds: r.holds, Keep: time.Hour,
		Log: slog.New(slog.DiscardHandler)})
	r.d = New(pools, r.holds)
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = r.holds.Run(ctx) })
	done.Go(func() { _ = pools.Run(ctx) })
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return r
}

func endpointsOf(pool string) resource.Ref {
	return resource.Ref{Type: resource.Endpoints, Name: model.PoolCluster("ns", pool).String()}
}

// deliver delivers endpoints of pools, which name further resources, and removals.
func (r *holdRig) deliver(pools map[string]string, names []resource.Ref, removes ...resource.Ref) {
	r.t.Helper()
	r.rev++
	c := &Change{Revision: r.rev}
	d := translator.Delta{Gateway: heldGateway, Removes: removes}
	for pool, endpoints := range pools {
		id := objectid.Target{Pool: objectid.Pool{Namespace: "ns", Name: pool}}
		pp := translator.PickerPool{
			Pool: &model.Pool{Name: id, Cluster: model.PoolCluster("ns", pool), Last: model.PoolCluster("ns", pool)},
		}
		for _, e := range strings.Fields(endpoints) {
			pp.Members = append(pp.Members, model.Member{Address: netip.MustParseAddrPort(e)})
		}
		c.Output.Pools = append(c.Output.Pools, pp)
		ref := endpointsOf(pool)
		d.Upserts = append(d.Upserts,
			resource.FromParts(ref.Type, ref.Name, resource.NewPart([]byte(endpoints), names, nil)))
	}
	c.Output.Deltas = []translator.Delta{d}
	before := time.Now()
	r.d.Deliver(r.t.Context(), c)
	if took := time.Since(before); took > 0 {
		r.t.Errorf("delivery waited for %s", took)
	}
}

func (r *holdRig) expect(what, pool, endpoints string) {
	r.t.Helper()
	synctest.Wait()
	got := "nothing"
	if eds := r.cache.Resource(heldGateway, endpointsOf(pool)); eds != nil {
		got = string(eds.Body())
	}
	if got != endpoints {
		r.t.Errorf("%s: the cache has %s for pool %s, want %s", what, got, pool, endpoints)
	}
}

func TestInferencePool_RemovalThatWaitsForAPeerDelaysNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHoldRig(t)
		r.deliver(map[string]string{"a": e1 + " " + e2, "b": e1}, nil)
		r.peer.follow()
		r.deliver(map[string]string{"a": e2}, nil)
		r.deliver(map[string]string{"b": e1 + " " + e3}, nil)
		r.expect("the peer still names the endpoint", "a", e1+" "+e2)
		r.expect("another pool", "b", e1+" "+e3)
		if r.named.size("a") != 1 {
			t.Error("the picker here still names the endpoint")
		}
		time.Sleep(holdTimeout)
		r.expect("the peer is late", "a", e2)
		r.deliver(map[string]string{"a": e3}, nil)
		r.expect("a late peer is not waited for again", "a", e3)
	})
}

func TestInferencePool_RemovalIsCommittedOncePeersHaveFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHoldRig(t)
		r.deliver(map[string]string{"a": e1 + " " + e2}, nil)
		r.peer.follow()
		r.deliver(map[string]string{"a": e2}, nil)
		r.deliver(map[string]string{"a": e2 + " " + e3}, nil)
		r.expect("a later change of the pool joins the hold", "a", e1+" "+e2)
		if n := r.named.size("a"); n != 1 {
			t.Errorf("the picker names %d endpoints before Envoy can have the new one, want 1", n)
		}
		began := time.Now()
		r.peer.follow()
		r.expect("the peer has followed", "a", e2+" "+e3)
		if n := r.named.size("a"); n != 2 || time.Since(began) > 0 {
			t.Errorf("the picker names %d endpoints after %s, want 2 at once", n, time.Since(began))
		}
	})
}

func TestInferencePool_HoldIsBoundedHoweverOftenItShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHoldRig(t)
		list := strings.Repeat(e1+" ", 1) + e2 + " " + e3
		r.deliver(map[string]string{"a": list}, nil)
		r.peer.follow()
		began := time.Now()
		for _, endpoints := range []string{e1 + " " + e2, e2 + " " + e3, e1 + " " + e3, e1, e2, e3} {
			if !r.holds.held(poolA) && time.Since(began) > 0 {
				break
			}
			r.deliver(map[string]string{"a": endpoints}, nil)
			time.Sleep(holdTimeout - time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(began); took > maxHold+holdTimeout {
			t.Errorf("a frozen peer holds the pool for %s, want at most %s", took, maxHold+holdTimeout)
		}
	})
}

func TestSpill_HopStaysWhileItsEndpointsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHoldRig(t)
		hop := resource.FromParts(resource.Listener, "hop", resource.NewPart([]byte("hop"), nil, nil))
		r.cache.Commit(cache.Batch{Gateway: heldGateway, Upserts: []*resource.Resource{hop}})
		r.deliver(map[string]string{"a": e1 + " " + e2}, []resource.Ref{hop.Ref})
		r.peer.follow()
		r.deliver(map[string]string{"a": e2}, nil, hop.Ref)
		synctest.Wait()
		if r.cache.Resource(heldGateway, hop.Ref) == nil {
			t.Error("the hop is removed before the endpoints that name it")
		}
		r.peer.follow()
		r.expect("the peer has followed", "a", e2)
		if r.cache.Resource(heldGateway, hop.Ref) != nil {
			t.Error("the hop stays")
		}
	})
}

func TestInferencePool_RemovedPoolIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHoldRig(t)
		r.deliver(map[string]string{"a": e1 + " " + e2}, nil)
		r.peer.follow()
		r.deliver(map[string]string{"a": e2}, nil)
		c := &Change{
			Revision: 9, Output: translator.Output{
				PoolsGone: []objectid.Target{poolA},
				Deltas:    []translator.Delta{{Gateway: heldGateway, Removes: []resource.Ref{endpointsOf("a")}}},
			},
		}
		r.d.Deliver(t.Context(), c)
		r.expect("the pool is removed", "a", "nothing")
	})
}
