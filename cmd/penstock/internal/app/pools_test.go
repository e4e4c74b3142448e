package app

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

// stageRig is a poolStage between a picker and Envoys that say when they know something.
type stageRig struct {
	t     *testing.T
	stage *poolStage
	known chan struct{} // closed when Envoys know the endpoints

	mu    sync.Mutex
	pools map[string]picker.Pool
}

func (r *stageRig) Update(p picker.Pool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools[p.Name] = p
	return nil
}

func (r *stageRig) Remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pools, name)
}

func (r *stageRig) endpointsKnown(ctx context.Context, _ ...string) error { return await(ctx, r.known) }

func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c:
		return nil
	}
}

func newStageRig(t *testing.T, keep time.Duration) *stageRig {
	r := &stageRig{t: t, known: make(chan struct{}), pools: map[string]picker.Pool{}}
	r.stage = newPoolStage(poolStageConfig{Picker: r, Proxies: r, Keep: keep, Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = r.stage.Run(ctx) }) // ends with the context's error
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return r
}

// change is one update from translation.
func (r *stageRig) change(inFlight int32, external bool, endpoints ...string) {
	pp := translator.PickerPool{Pool: &model.Pool{Name: model.PoolID{Namespace: "ns", Name: "a"}, Cluster: model.PoolCluster("ns", "a"), Last: model.PoolCluster("ns", "a"), External: external}}
	pp.Pool.Settings.FullInFlight = inFlight
	for _, e := range endpoints {
		pp.Members = append(pp.Members, model.Member{Address: netip.MustParseAddrPort(e)})
	}
	r.stage.before(translator.Output{Pools: []translator.PickerPool{pp}})
	r.stage.after()
}

// expect waits until the picker names some endpoints of the pool and takes it for full at a number of requests.
func (r *stageRig) expect(what string, inFlight int32, want ...string) {
	r.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		got, full := r.names()
		if slices.Equal(got, want) && full == inFlight {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: the picker names %v, full at %d; want %v at %d", what, got, full, want, inFlight)
		}
		time.Sleep(time.Millisecond)
	}
}

// names is what the picker names of the pool, and when it is full.
func (r *stageRig) names() (endpoints []string, full int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.pools["ns/a"].Endpoints {
		endpoints = append(endpoints, e.Addr.String())
	}
	return endpoints, r.pools["ns/a"].Full.InFlight
}

// at once: what the picker is told before Envoy is.
func (r *stageRig) atOnce(what string, inFlight int32, want ...string) {
	r.t.Helper()
	if got, full := r.names(); !slices.Equal(got, want) || full != inFlight {
		r.t.Errorf("%s: the picker names %v, full at %d; want %v at %d", what, got, full, want, inFlight)
	}
}

const e1, e2, e3 = "10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"

func TestAPickNamesNoEndpointThatEnvoyDoesNotHave(t *testing.T) {
	r := newStageRig(t, time.Hour)
	r.change(0, false, e1, e2)
	r.change(0, false, e2, e3)
	r.atOnce("one leaves, one comes", 0, e2)
	close(r.known)
	r.expect("Envoy knows", 0, e2, e3)
}

func TestAPoolWhoseServersAreAllReplacedIsPickedFromAllTheTime(t *testing.T) {
	r := newStageRig(t, time.Hour)
	r.change(0, false, e1)
	r.change(0, false, e2)
	r.atOnce("until Envoy knows, whichever it has", 0, e2, e1)
	close(r.known)
	r.expect("Envoy knows", 0, e2)
}

// An update must have reached the cache before anyone asks whether Envoys have what is newest there.
func TestWhatEnvoysHadBeforeIsNotTakenForWhatComes(t *testing.T) {
	r := newStageRig(t, time.Hour)
	r.change(0, false, e1)
	close(r.known)
	pp := translator.PickerPool{Pool: &model.Pool{Name: model.PoolID{Namespace: "ns", Name: "a"}, Cluster: model.PoolCluster("ns", "a"), Last: model.PoolCluster("ns", "a")}}
	for _, e := range []string{e1, e2} {
		pp.Members = append(pp.Members, model.Member{Address: netip.MustParseAddrPort(e)})
	}
	r.stage.before(translator.Output{Pools: []translator.PickerPool{pp}})
	r.stage.finishGrowing(t.Context()) // as an earlier update's wake-up has it
	r.atOnce("the cache does not have it yet", 0, e1)
	r.stage.after()
	r.expect("Envoy knows", 0, e1, e2)
}

func TestAPickNamesNoPlaceToSpillToThatEnvoyDoesNotHave(t *testing.T) {
	r := newStageRig(t, time.Hour)
	change := func(places ...string) {
		pp := translator.PickerPool{Pool: &model.Pool{Name: model.PoolID{Namespace: "ns", Name: "a"}, Cluster: model.PoolCluster("ns", "a"), Last: model.PoolCluster("ns", "a")}}
		pp.Pool.Picker.Spill, pp.Pool.Picker.Spills = places, len(places) > 0
		r.stage.before(translator.Output{Pools: []translator.PickerPool{pp}})
		r.stage.after()
	}
	spill := func() []string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.pools["ns/a"].Spills {
			t.Error("requests are refused")
		}
		return r.pools["ns/a"].Spill
	}
	change("b", "c")
	change("c", "d")
	if got := spill(); !slices.Equal(got, []string{"c"}) {
		t.Errorf("before Envoy knows: %v", got)
	}
	close(r.known)
	for deadline := time.Now().Add(30 * time.Second); !slices.Equal(spill(), []string{"c", "d"}); {
		if time.Now().After(deadline) {
			t.Fatalf("Envoy knows: %v", spill())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestAPoolThatIsGoneIsPickedFromUntilNobodyAsks(t *testing.T) {
	for name, leave := range map[string]func(*stageRig){
		"removed": func(r *stageRig) {
			r.stage.before(translator.Output{PoolsGone: []model.PoolID{{Namespace: "ns", Name: "a"}}})
		},
		"it has an external picker": func(r *stageRig) { r.change(0, true, e1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newStageRig(t, time.Hour)
			r.change(0, false, e1)
			leave(r)
			r.atOnce("routes of before still ask", 0, e1)
			r = newStageRig(t, time.Millisecond)
			r.change(0, false, e1)
			leave(r)
			r.expect("the time is over", 0)
		})
	}
}
