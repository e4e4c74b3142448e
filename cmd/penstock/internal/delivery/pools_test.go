package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type noPeers struct{}

func (noPeers) Publish(map[objectid.Target]string)      {}
func (noPeers) Retract(...objectid.Target)              {}
func (noPeers) Behind(objectid.Target, string) []string { return nil }
func (noPeers) MarkLate(...string)                      {}
func (noPeers) Changed() <-chan struct{}                { return nil }

// poolRig has a Pools between a picker and Envoys. The test decides when Envoys have the endpoints.
type poolRig struct {
	t     *testing.T
	pools *Pools
	known chan struct{} // closed when Envoys have the endpoints

	mu     sync.Mutex
	picked map[objectid.Target]picker.Pool // the picker's pools
}

func (r *poolRig) Update(p picker.Pool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.picked[p.ID] = p
	return nil
}

func (r *poolRig) Remove(name objectid.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.picked, name)
}

func (r *poolRig) EndpointsKnown(ctx context.Context, _ ...string) error { return await(ctx, r.known) }

func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c:
		return nil
	}
}

func newPoolRig(t *testing.T, keep time.Duration) *poolRig {
	r := &poolRig{t: t, known: make(chan struct{}), picked: map[objectid.Target]picker.Pool{}}
	r.pools = NewPools(PoolsConfig{Picker: r, Envoys: r,
		Holds: NewHolds(
			HoldsConfig{Cache: NewLinger(cache.New(cache.Config{}), time.Minute, slog.New(slog.DiscardHandler)),
				Names: noPeers{}}), Keep: keep, Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = r.pools.Run(ctx) }) // ends with the context's error
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return r
}

func (r *poolRig) change(inFlight int32, external bool, endpoints ...string) {
	pp := translator.PickerPool{
		Pool: &model.Pool{Name: poolA, Cluster: model.PoolCluster("ns", "a"), Last: model.PoolCluster("ns", "a"),
			External: external},
	}
	pp.Pool.Settings.FullInFlight = inFlight
	for _, e := range endpoints {
		pp.Members = append(pp.Members, model.Member{Address: netip.MustParseAddrPort(e)})
	}
	r.pools.before(translator.Output{Pools: []translator.PickerPool{pp}})
	r.pools.after()
}

// expect waits until the picker names these endpoints, and has the limit inFlight of requests in
// flight.
func (r *poolRig) expect(what string, inFlight int32, want ...string) {
	r.t.Helper()
	poll.NoError(r.t, what, poll.Limit, func() error {
		if got, full := r.names(); !slices.Equal(got, want) || full != inFlight {
			return fmt.Errorf("the picker names %v, full at %d; want %v at %d", got, full, want, inFlight)
		}
		return nil
	})
}

func (r *poolRig) names() (endpoints []string, full int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.picked[poolA].Endpoints {
		endpoints = append(endpoints, e.Addr.String())
	}
	return endpoints, r.picked[poolA].Full.InFlight
}

func (r *poolRig) byDefault(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.picked[objectid.MustParseTarget(name)].Default
}

func (r *poolRig) atOnce(what string, inFlight int32, want ...string) {
	r.t.Helper()
	if got, full := r.names(); !slices.Equal(got, want) || full != inFlight {
		r.t.Errorf("%s: the picker names %v, full at %d; want %v at %d", what, got, full, want, inFlight)
	}
}

var poolA = objectid.MustParseTarget("ns/a")

const e1, e2, e3 = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"

func TestPicker_NamesNoEndpointThatEnvoyLacks(t *testing.T) {
	r := newPoolRig(t, time.Hour)
	r.change(0, false, e1, e2)
	r.change(0, false, e2, e3)
	r.atOnce("one leaves, one comes", 0, e2)
	close(r.known)
	r.expect("Envoy knows", 0, e2, e3)
}

func TestInferencePool_ReplacingAllServersKeepsItPickable(t *testing.T) {
	r := newPoolRig(t, time.Hour)
	r.change(0, false, e1)
	r.change(0, false, e2)
	r.atOnce("until Envoy knows, whichever it has", 0, e2, e1)
	close(r.known)
	r.expect("Envoy knows", 0, e2)
}

// Picks name fallbacks for a new endpoint, because Envoy's workers get it a little after the ACK.
func TestPicker_NewEndpointIsNotNamedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPoolRig(t, time.Hour)
		fallbacks := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			if got := r.picked[poolA].Fallbacks; got != want {
				t.Errorf("%s: %d further endpoints, want %d", when, got, want)
			}
		}
		r.change(0, false, e1)
		r.change(0, false, e1, e2)
		fallbacks("before Envoy knows", 0)
		close(r.known)
		fallbacks("once Envoy knows", maxFallbacks)
		time.Sleep(youngTime / 2)
		r.change(4, false, e1, e2)
		fallbacks("after a change of something else", maxFallbacks)
		time.Sleep(youngTime / 2)
		fallbacks("later", 0)
	})
}

// ACKs before the commit of a change do not count, because they are for older endpoints.
func TestPicker_EarlierAckIsNotTakenForTheNewEndpoints(t *testing.T) {
	r := newPoolRig(t, time.Hour)
	r.change(0, false, e1)
	close(r.known)
	pp := translator.PickerPool{
		Pool: &model.Pool{Name: poolA, Cluster: model.PoolCluster("ns", "a"), Last: model.PoolCluster("ns", "a")},
	}
	for _, e := range []string{e1, e2} {
		pp.Members = append(pp.Members, model.Member{Address: netip.MustParseAddrPort(e)})
	}
	r.pools.before(translator.Output{Pools: []translator.PickerPool{pp}})
	r.pools.finishGrowing(t.Context()) // as an earlier update would call it
	r.atOnce("the cache does not have it yet", 0, e1)
	r.pools.after()
	r.expect("Envoy knows", 0, e1, e2)
}

func TestSpill_NamesNoPlaceThatEnvoyLacks(t *testing.T) {
	r := newPoolRig(t, time.Hour)
	change := func(places ...string) {
		pp := translator.PickerPool{
			Pool: &model.Pool{Name: poolA, Cluster: model.PoolCluster("ns", "a"), Last: model.PoolCluster("ns", "a")},
		}
		pp.Pool.Picker.Spill, pp.Pool.Picker.Spills = places, len(places) > 0
		r.pools.before(translator.Output{Pools: []translator.PickerPool{pp}})
		r.pools.after()
	}
	spill := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.picked[poolA].Spills {
			t.Error("the pool does not spill")
		}
		return r.picked[poolA].Spill
	}
	change("b", "c")
	change("c", "d")
	if got := spill(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("before Envoy knows: %v, want %v", got, []string{"c"})
	}
	close(r.known)
	poll.NoError(t, "the picker names the new target once Envoy has it", poll.Limit, func() error {
		if got := spill(); !slices.Equal(got, []string{"c", "d"}) {
			return fmt.Errorf("it names %v, want c and d", got)
		}
		return nil
	})
}

func TestInferencePoolImport_ChangedModeIsPickedFromForTheDrainTime(t *testing.T) {
	gateways := translator.PickerPool{Pool: &model.Pool{Name: poolA},
		Gateways: &model.ExternalPicker{
			Addresses: []model.RemoteAddress{{Addr: netip.MustParseAddrPort(e2), Cleartext: true}},
		}}
	r := newPoolRig(t, time.Hour)
	r.change(0, false, e1)
	for range 2 {
		r.pools.before(translator.Output{Pools: []translator.PickerPool{gateways}})
		r.atOnce("routes of before still ask", 0, e1)
	}
	r = newPoolRig(t, time.Millisecond)
	r.change(0, false, e1)
	r.pools.before(translator.Output{Pools: []translator.PickerPool{gateways}})
	poll.NoError(t, "the gateways take its place once the time is over", poll.Limit, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if p := r.picked[poolA]; !p.Gateways || len(p.Servers) != 1 {
			return fmt.Errorf("got %+v, want gateways with one server", p)
		}
		return nil
	})
	r.change(0, false, e1)
	r.atOnce("it is picked from again", 0, e1)
}

func TestInferencePool_RemovedOneIsPickedFromForTheDrainTime(t *testing.T) {
	for name, leave := range map[string]func(*poolRig){
		"removed": func(r *poolRig) {
			r.pools.before(translator.Output{PoolsGone: []objectid.Target{poolA}})
		},
		"it has an external picker": func(r *poolRig) { r.change(0, true, e1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newPoolRig(t, time.Hour)
			r.change(0, false, e1)
			leave(r)
			r.atOnce("routes of before still ask", 0, e1)
			if !r.byDefault("ns/a") {
				t.Error("gateways that name no pool have none at once")
			}
			r = newPoolRig(t, time.Millisecond)
			r.change(0, false, e1)
			leave(r)
			r.expect("the time is over", 0)
		})
	}
	r := newPoolRig(t, time.Hour)
	r.change(0, false, e1)
	r.pools.before(translator.Output{PoolsGone: []objectid.Target{poolA}})
	r.pools.before(
		translator.Output{
			Pools: []translator.PickerPool{
				{Pool: &model.Pool{Name: objectid.Target{Pool: objectid.Pool{Namespace: "ns", Name: "b"}}}},
			},
		})
	if r.byDefault("ns/a") || !r.byDefault("ns/b") {
		t.Error("the pool that replaces the removed one is not the default one")
	}
}

func TestSession_SettingsOfAnImportReachThePicker(t *testing.T) {
	pp := translator.PickerPool{
		Pool:   &model.Pool{Name: poolA, Settings: model.PickerSettings{SessionTTL: 60, SessionCookie: "sid"}},
		Choice: &translator.Choice{Sessions: true},
	}
	if p := pickerPool(pp); p.Clusters == nil || !p.Clusters.Sessions || p.SessionTTL != time.Minute ||
		p.SessionCookie != "sid" {
		t.Errorf("got %+v, want sessions of 1 min by the cookie sid", p)
	}
}

func TestInferencePool_FirstServerIsPickedOnceEnvoyHasIt(t *testing.T) {
	r := newPoolRig(t, time.Hour)
	r.pools.cfg.OnDemand = func(objectid.Target) bool { return true }
	r.change(0, false)
	r.change(0, false, e1)
	r.atOnce("Envoy lacks the server", 0)
	close(r.known)
	r.expect("Envoy has it", 0, e1)
}

func TestInferencePool_FirstServerIsPickedAtOnceElsewhere(t *testing.T) {
	r := newPoolRig(t, time.Hour)
	r.change(0, false)
	r.change(0, false, e1)
	r.atOnce("Envoy lacks the server", 0, e1)
}
