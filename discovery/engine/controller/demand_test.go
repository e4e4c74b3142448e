package controller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker"
)

type gateway struct {
	r *rig

	mu     sync.Mutex
	active map[string]int64 // by deployment
	held   map[string]int64
	sent   map[string][]int32 // ports of the servers that have requests
	last   map[string]time.Time
}

func (g *gateway) Use(pool objectid.Target) picker.Use {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := pool.String()
	u := picker.Use{Known: true, Active: g.active[id], Held: g.held[id], Last: g.last[id]}
	for _, s := range g.servers(id) {
		u.Accepts = u.Accepts || !s.Draining
	}
	return u
}

func (g *gateway) ServerUse(pool objectid.Target, at netip.AddrPort) (u picker.Use) {
	g.mu.Lock()
	defer g.mu.Unlock()
	u.Known = true
	for _, port := range g.sent[pool.String()] {
		if port == int32(at.Port()) {
			u.Active++
		}
	}
	for _, s := range g.servers(pool.String()) {
		if s.Ports[0] == int32(at.Port()) {
			u.Accepts = !s.Draining
		}
	}
	return u
}

func (g *gateway) servers(id string) []v1alpha1.ModelServer {
	if m, ok := store.ModelServers.Get(g.r.world.View(), id); ok {
		return m.Spec.Servers
	}
	return nil
}

func (g *gateway) begin(id string) bool {
	serves := g.Use(target(id)).Accepts
	g.mu.Lock()
	defer g.mu.Unlock()
	if serves {
		for _, s := range g.servers(id) {
			if !s.Draining {
				g.sent[id] = append(g.sent[id], s.Ports[0])
				break
			}
		}
		g.active[id]++
		g.last[id] = time.Now()
	}
	return serves
}

func (g *gateway) busy(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.active[id] > 0
}

func (g *gateway) hold(id string, by int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[id] += by
}

func (g *gateway) end(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent[id] = g.sent[id][1:]
	g.active[id]--
}

func target(id string) objectid.Target { return objectid.MustParseTarget(id) }

func follow(r *rig) *gateway {
	g := &gateway{r: r, active: map[string]int64{}, held: map[string]int64{},
		sent: map[string][]int32{}, last: map[string]time.Time{}}
	r.Follow(g)
	return g
}

// works starts wanted servers and ends unwanted ones, at ticks of slow. stops precedes each end.
func (f *fake) works(t *testing.T, slow time.Duration, stops func(name string)) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(slow)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			f.mu.Lock()
			wanted := map[string]bool{}
			for _, p := range f.wanted {
				wanted[p.Name] = true
			}
			changed := false
			for name, s := range f.states {
				switch {
				case !wanted[name]:
					stops(name)
					delete(f.states, name)
				case s.Phase == processes.Starting:
					s.Phase = processes.Running
					f.states[name] = s
				default:
					continue
				}
				changed = true
			}
			f.mu.Unlock()
			if changed {
				select {
				case f.changed <- struct{}{}:
				case <-ctx.Done():
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func TestIdle_ADeploymentWithoutRequestsStopsAndARequestStartsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "deployments.json")
		r := start(t, file)
		g := follow(r)
		r.deploy("qwen", sim+"idle: 1m\n")
		r.engines.set("default/qwen/0", running)
		synctest.Wait()
		if !g.begin("default/qwen") {
			t.Fatal("a running deployment accepts no request")
		}
		time.Sleep(5 * time.Minute)
		if got := r.conditions("qwen"); !strings.Contains(got, "Ready True Running") ||
			len(r.engines.processes()) != 1 {
			t.Errorf("with an old stream: %s", got)
		}
		g.end("default/qwen")
		time.Sleep(62 * time.Second)
		synctest.Wait()
		if got := r.conditions("qwen"); !strings.Contains(got, "Ready False Asleep no requests for 1m0s") ||
			len(r.engines.processes()) > 0 || r.servers("qwen") > 0 {
			t.Fatalf("a minute later: %s", got)
		}
		r.engines.end("default/qwen/0")
		if d, ok := r.Demand(target("default/qwen")); !ok || d.Model != "qwen" || d.Limit != 11*time.Minute {
			t.Errorf("%+v %v, want the model and its limit", d, ok)
		}
		resumed := make(chan error, 1)
		go func() { resumed <- r.Resume(t.Context(), target("default/qwen")) }()
		synctest.Wait()
		if len(r.engines.processes()) != 1 || len(resumed) > 0 {
			t.Fatalf("a request: %v wanted, %d answered", r.engines.processes(), len(resumed))
		}
		r.engines.set("default/qwen/0", running)
		if err := <-resumed; err != nil || r.servers("qwen") != 1 {
			t.Errorf("%v with %d servers", err, r.servers("qwen"))
		}
	})
}

func TestIdle_AFailedStartEndsTheWaitAndAClientThatLeavesStartsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		follow(r)
		r.deploy("qwen", sim)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Resume(ctx, target("default/qwen")); err == nil || ctx.Err() == nil {
			t.Errorf("a client that leaves after a second: %v", err)
		}
		resumed := make(chan error, 1)
		go func() { resumed <- r.Resume(t.Context(), target("default/qwen")) }()
		synctest.Wait()
		r.engines.set("default/qwen/0", func(s *processes.State) {
			s.Phase, s.PID, s.Reason = processes.Waiting, 0, "exit status 1"
		})
		if err := <-resumed; err == nil || !strings.Contains(err.Error(), "exit status 1") {
			t.Errorf("a failed start: %v", err)
		}
		r.deploy("qwen", sim+"replicas: 0\n")
		if err := r.Resume(t.Context(), target("default/qwen")); err == nil {
			t.Error("a paused deployment serves")
		}
	})
}

func TestIdle_ARestartStartsNoServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	for round := range 2 {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, file)
			follow(r)
			r.deploy("qwen", sim+"idle: 1m\n")
			if round == 0 {
				r.engines.set("default/qwen/0", running)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
			}
			if got := r.conditions("qwen"); !strings.Contains(got, "Asleep") || len(r.engines.processes()) > 0 {
				t.Errorf("round %d: %s", round, got)
			}
		})
	}
}

func model(name, more string) string {
	return strings.Replace(cuda("1"), "{name: qwen}", "{name: "+name+"}", 1) + more
}

func one() ([]devices.Device, error) { return devices.Numbered(1), nil }

func TestSwap_TheLeastRecentlyUsedOneGivesItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		g := follow(r)
		f.works(t, time.Second, func(string) {})
		defer r.begin(f)()
		for _, name := range []string{"a", "b", "c"} {
			r.deploy(name, model(name, ""))
		}
		time.Sleep(3 * time.Second)
		for _, id := range []string{"default/b", "default/a"} { // b is least recently used
			if !g.begin(id) {
				t.Fatal(id + " does not serve")
			}
			time.Sleep(2 * time.Second)
			g.end(id)
		}
		if err := r.Resume(t.Context(), target("default/c")); err != nil {
			t.Fatal(err)
		}
		if got := f.seen(); got != "default/a/0 0, default/c/0 1" {
			t.Errorf("%s, want a and c", got)
		}
		if got := r.conditions("b"); !strings.Contains(got, "Asleep ModelDeployment default/c needs its room") {
			t.Error(got)
		}
	})
}

func TestSwap_OneThatIsKeptStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", one)
		follow(r)
		f.works(t, time.Second, func(string) {})
		defer r.begin(f)()
		r.deploy("a", model("a", "keep: true\n"))
		time.Sleep(3 * time.Second)
		r.deploy("b", model("b", ""))
		if err := r.Resume(t.Context(), target("default/b")); err == nil ||
			!strings.Contains(err.Error(), "0 is used by default/a/0") {
			t.Errorf("%v, want a reason without a wait", err)
		}
		if got := f.seen(); got != "default/a/0 0" {
			t.Error(got)
		}
	})
}

func TestSwap_ABusyOneGivesItsRoomAfterItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", one)
		g := follow(r)
		f.works(t, time.Second, func(name string) {
			if strings.HasPrefix(name, "default/a/") && g.busy("default/a") {
				t.Error("a stops while it serves")
			}
		})
		defer r.begin(f)()
		r.deploy("a", model("a", ""))
		time.Sleep(3 * time.Second)
		r.deploy("b", model("b", ""))
		g.begin("default/a")
		resumed := make(chan error, 1)
		go func() { resumed <- r.Resume(t.Context(), target("default/b")) }()
		time.Sleep(15 * time.Second)
		if g.begin("default/a") || len(resumed) > 0 {
			t.Error("a gets further requests after its turn, or stops while it serves")
		}
		g.end("default/a")
		if err := <-resumed; err != nil {
			t.Error(err)
		}
	})
}

func TestSwap_RandomRequestsAreServedAndNoneIsCut(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r := machine(t, "", one)
			g := follow(r)
			f.works(t, 100*time.Millisecond, func(name string) {
				if g.busy(path.Dir(name)) {
					t.Errorf("seed %d: %s stops while it serves", seed, name)
				}
			})
			defer r.begin(f)()
			names := []string{"a", "b", "c"}
			for _, name := range names {
				r.deploy(name, model(name, ""))
			}
			random := rand.New(rand.NewPCG(seed, 45))
			var requests sync.WaitGroup
			var swaps []string
			for i := range 100 {
				time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
				id, takes := "default/"+names[random.IntN(3)], time.Duration(random.IntN(3000))*time.Millisecond
				swaps = append(swaps, id)
				requests.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					g.hold(id, 1)
					defer g.hold(id, -1)
					for !g.begin(id) {
						if err := r.Resume(ctx, target(id)); err != nil {
							t.Errorf("seed %d: request %d for %s: %v", seed, i, id, err)
							return
						}
						time.Sleep(time.Millisecond)
					}
					g.hold(id, -1)
					time.Sleep(takes)
					g.hold(id, 1)
					g.end(id)
				})
			}
			requests.Wait()
			slices.Sort(swaps)
			if got := slices.Compact(swaps); len(got) != 3 {
				t.Error(fmt.Sprint("only ", got, " had requests"))
			}
		})
	}
}
