package xdstest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// All resources of a sequence are derived from a dial, so every referenced name exists.
type dial struct {
	route    [4]int // cluster in each listener's routes; -1: no listener
	listener [4]int
	cluster  [6]int
	service  [6]int // 0: own endpoints; otherwise shared endpoints
	port     [6]int // port of the cluster's own endpoints
	hop      [6]int // 0: no hop (virtual host behind an internal listener)
	// leaf is the cluster behind each hop. Routes may also name it.
	leaf [3]int
	badC int // cluster that Envoy rejects; -1: none
	badR int // routes that Envoy rejects; -1: none
}

func newDial() dial { return dial{badC: -1, badR: -1} }

func (d *dial) turn(r *rand.Rand) {
	switch r.IntN(9) {
	case 0, 1:
		d.route[r.IntN(len(d.route))] = r.IntN(len(d.cluster)+1) - 1
	case 2:
		d.listener[r.IntN(len(d.listener))] = r.IntN(2)
	case 3:
		d.cluster[r.IntN(len(d.cluster))] = r.IntN(3)
	case 4:
		d.service[r.IntN(len(d.service))] = r.IntN(3)
	case 5:
		d.port[r.IntN(len(d.port))] = r.IntN(4)
	case 6:
		d.hop[r.IntN(len(d.hop))] = r.IntN(4)
	case 7:
		d.leaf[r.IntN(len(d.leaf))] = r.IntN(3 + len(d.cluster))
	case 8:
		d.badC, d.badR = -1, -1
		if r.IntN(3) == 0 {
			d.badC = r.IntN(len(d.cluster))
		}
		if r.IntN(3) == 0 {
			d.badR = r.IntN(len(d.route))
		}
	}
}

func (d *dial) resources(t testing.TB) map[resource.Ref]*resource.Resource {
	out, hops := map[resource.Ref]*resource.Resource{}, map[string]string{}
	put := func(r *resource.Resource) { out[r.Ref] = r }
	for i, c := range d.route {
		if c < 0 {
			continue
		}
		rc := fmt.Sprintf("routes-%d", i)
		put(xdstest.Listener(t, fmt.Sprintf("listener-%d-%d", i, d.listener[i]), uint32(1000+i), rc))
		name := fmt.Sprintf("cluster-%d", c)
		if d.badR == i {
			put(badRoutes(t, rc, name))
		} else {
			put(xdstest.Routes(t, rc, name))
		}
		d.pool(t, c, name, hops, put)
	}
	if len(hops) > 0 {
		l, rc := xdstest.Hops(t, hops)
		put(l)
		put(rc)
	}
	return out
}

func (d *dial) pool(t testing.TB, c int, name string, hops map[string]string, put func(*resource.Resource)) {
	service, hop := name, d.hop[c]
	if d.service[c] > 0 {
		service, hop = fmt.Sprintf("shared-%d", d.service[c]), 0
	}
	put(xdstest.SharedCluster(t, name, service, d.cluster[c]))
	if d.badC == c {
		put(badPolicy(t, name))
		return
	}
	if hop == 0 {
		put(xdstest.Endpoints(t, service, uint32(2000+d.port[c])))
		if service != name {
			put(xdstest.Endpoints(t, service, 3000))
		}
		return
	}
	h, behind := fmt.Sprintf("hop-%d", hop), d.leaf[hop-1]
	put(xdstest.EndpointsWithHops(t, service, []string{h}, uint32(2000+d.port[c])))
	if other := behind - 3; other >= 0 && other != d.badC && d.hop[other] == 0 {
		hops[h] = fmt.Sprintf("cluster-%d", other)
		d.pool(t, other, hops[h], hops, put)
		return
	}
	leaf := fmt.Sprintf("leaf-%d", behind)
	hops[h] = leaf
	put(xdstest.Cluster(t, leaf, 0))
	put(xdstest.Endpoints(t, leaf, 4000))
}

func difference(old, new map[resource.Ref]*resource.Resource) (upserts []*resource.Resource, removes []resource.Ref) {
	for ref, r := range new {
		if o := old[ref]; o == nil || o.Version != r.Version {
			upserts = append(upserts, r)
		}
	}
	for ref := range old {
		if new[ref] == nil {
			removes = append(removes, ref)
		}
	}
	slices.SortFunc(upserts, func(a, b *resource.Resource) int { return a.Compare(b.Ref) })
	slices.SortFunc(removes, resource.Ref.Compare)
	return upserts, removes
}

func outOfSync(f *xdstest.Simulation, world map[resource.Ref]*resource.Resource, d *dial) string {
	if f.HasUnacked() {
		return ""
	}
	var wrong []string
	for _, t := range resource.Types() {
		if d.badC >= 0 || d.badR >= 0 {
			break // the last good version may need removed resources
		}
		for _, n := range f.Names(t) {
			if world[resource.Ref{Type: t, Name: n}] == nil {
				wrong = append(wrong, t.String()+" "+n+" unexpected")
			}
		}
	}
	for ref, r := range world {
		if d.badC >= 0 && ref.Type == resource.Cluster && ref.Name == fmt.Sprintf("cluster-%d", d.badC) {
			continue
		}
		if d.badR >= 0 && ref.Type == resource.RouteConfiguration && ref.Name == fmt.Sprintf("routes-%d", d.badR) {
			continue
		}
		if (d.badC >= 0 || d.badR >= 0) && ref.Type == resource.RouteConfiguration && ref.Name == xdstest.HopListener {
			continue // the last good version may lead to a removed hop
		}
		if v, _ := f.Has(ref); v != r.Version {
			wrong = append(wrong, ref.String()+" missing at its version")
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, ", ")
}

// onceFailed are seeds that have failed.
var onceFailed = []uint64{2492, 1591, 4878, 2181, 4095, 2611, 2771, 2980, 988}

var (
	sequences = flag.Uint64("sequences", 120, "how many random sequences to run")
	sequence  = flag.Int64("sequence", -1, "the one random sequence to run: a seed that has failed")
)

func TestADS_RandomChangesStayConsistent(t *testing.T) {
	if *sequence >= 0 {
		runSequence(t, uint64(*sequence), 120)
		return
	}
	seeds := slices.Clone(onceFailed)
	for seed := range *sequences {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		if runSequence(t, seed, 120); t.Failed() {
			t.Fatalf("to run this sequence again: go test ./xds/xdstest -run '^%s$' -args -sequence=%d", t.Name(), seed)
		}
	}
}

// Once all messages have arrived, in random order, each proxy must have exactly the last resources.
func runSequence(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 0))
	d := newDial()
	world := d.resources(t)
	store := storeOf(world)
	// With a shorter watchdog, the result would depend on slow proxies.
	config := publish.Config{Watchdog: time.Hour}
	sims := []*xdstest.Simulation{
		xdstest.Simulate(t, xdstest.FakeConfig{Node: "delta"}, store, config),
		xdstest.Simulate(t, xdstest.FakeConfig{Node: "state", StateOfTheWorld: true}, store, config),
	}
	var script []string
	for step := range steps {
		for range 1 + r.IntN(3) {
			d.turn(r)
		}
		next := d.resources(t)
		upserts, removes := difference(world, next)
		world = next
		script = append(script, fmt.Sprintf("%d: upsert %v remove %v", step, names(upserts), removes))
		store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts, Removes: removes})
		if r.IntN(20) == 0 {
			sims[0].Connect(store)
			script = append(script, "delta reconnects")
		}
		settle := r.IntN(4) == 0
		for _, s := range sims {
			for range r.IntN(24) {
				s.Step(r) // further changes come meanwhile
			}
			if !settle {
				continue
			}
			s.Settle(r)
			wrong := outOfSync(s, world, &d)
			if wrong == "" && step%5 == 0 {
				wrong = freshOutOfSync(t, s, store, config, seed, world, &d)
			}
			if wrong == "" && len(s.Violations()) == 0 {
				continue
			}
			received := s.Received()
			t.Errorf("seed %d, after step %d: %s, violations %v; want sync, and none\n%s\nlast received: %s",
				seed, step, wrong, s.Violations(),
				strings.Join(script[max(0, len(script)-8):], "\n"), shown(received[max(0, len(received)-20):]))
			return
		}
	}
}

// freshOutOfSync lists what a newly started proxy lacks or rejects, unlike s. It has no last good
// version, but a rejected resource must not delay others.
func freshOutOfSync(
	t *testing.T, s *xdstest.Simulation, store *cache.Cache, c publish.Config, seed uint64,
	world map[resource.Ref]*resource.Resource, d *dial,
) string {
	fresh := xdstest.Simulate(t, xdstest.FakeConfig{Node: "fresh", StateOfTheWorld: s.StateOfTheWorld()}, store, c)
	fresh.Settle(rand.New(rand.NewPCG(seed, 1)))
	wrong := append(fresh.Violations(), outOfSync(fresh, world, d))
	if got, want := rejectedBy(fresh, world), rejectedBy(s, world); got != want {
		wrong = append(wrong, fmt.Sprintf("it rejects %s; the other one %s", got, want))
	}
	if wrong := strings.TrimSpace(strings.Join(wrong, " ")); wrong != "" {
		return "a proxy that has just started: " + wrong
	}
	return ""
}

func rejectedBy(s *xdstest.Simulation, world map[resource.Ref]*resource.Resource) string {
	var out []string
	for _, r := range s.Stream().Rejections() {
		if world[r.Ref] == nil {
			continue // the resource is being removed
		}
		fields := fmt.Sprint(r.Ref, " ", r.Host, " ", r.Route, " ", r.Member)
		out = append(out, strings.Join(strings.Fields(fields), " "))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func storeOf(world map[resource.Ref]*resource.Resource) *cache.Cache {
	store := cache.New(cache.Config{})
	store.SetReady()
	upserts, _ := difference(nil, world)
	store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts})
	return store
}

func shown(list []xdstest.Received) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "\n  %s %s removed %s same %s %s", r.Type, r.Upserts, r.Removed, r.Same, r.Rejected)
	}
	return b.String()
}

func names(list []*resource.Resource) (out []string) {
	for _, r := range list {
		out = append(out, r.Ref.String()+"@"+r.Version[:4])
	}
	return out
}
