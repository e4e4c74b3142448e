package xdstest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// dial is everything that a random world is made of. Resources follow from it, so that nothing in it is named that does
// not exist.
type dial struct {
	route    [4]int // the cluster of each listener's routes; -1: the listener does not exist
	listener [4]int // a generation
	cluster  [6]int // a generation
	service  [6]int // 0: the cluster's own endpoints; else shared ones
	port     [6]int // of the own endpoints
	hop      [6]int // 0: none
	leaf     [3]int // the cluster behind a hop
	badC     int    // a cluster that Envoy refuses; -1: none
	badR     int    // routes that Envoy refuses; -1: none
}

func newDial() dial { return dial{badC: -1, badR: -1} }

// turn changes one thing.
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
		d.leaf[r.IntN(len(d.leaf))] = r.IntN(3)
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

// resources are the world that a dial shows.
func (d *dial) resources(t testing.TB) map[resource.Ref]*resource.Resource {
	out := map[resource.Ref]*resource.Resource{}
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
		d.pool(t, c, name, put)
	}
	return out
}

func (d *dial) pool(t testing.TB, c int, name string, put func(*resource.Resource)) {
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
	h, leaf := fmt.Sprintf("hop-%d", hop), fmt.Sprintf("leaf-%d", d.leaf[hop-1])
	put(xdstest.EndpointsWithHops(t, service, []string{h}, uint32(2000+d.port[c])))
	put(xdstest.Hop(t, h, h))
	put(xdstest.Routes(t, h, leaf))
	put(xdstest.Cluster(t, leaf, 0))
	put(xdstest.Endpoints(t, leaf, 4000))
}

// difference is what leads from one world to the next.
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

// settled says what a proxy has not got that it should have, or has got and should not; empty when it is in order.
func settled(f *xdstest.Fake, world map[resource.Ref]*resource.Resource, d *dial) string {
	var wrong []string
	for _, t := range resource.Types() {
		if d.badC >= 0 || d.badR >= 0 {
			break // what the refused one had before is still needed
		}
		for _, n := range f.Names(t) {
			if world[resource.Ref{Type: t, Name: n}] == nil {
				wrong = append(wrong, t.String()+" "+n+" too much")
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
		if v, _ := f.Has(ref); v != r.Version {
			wrong = append(wrong, ref.String()+" not there at its version")
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, ", ")
}

// A sequence that fails is run again with its seed: put it first in seeds.
func TestNoSequenceOfChangesBreaksAnything(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			runSequence(t, seed, 120)
		})
	}
}

func runSequence(t *testing.T, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 0))
	// A long watchdog: on a loaded machine it would otherwise decide what the proxy is too slow for.
	config := server.Config{Publish: publish.Config{Watchdog: time.Minute, Settle: time.Second / 2}}
	control := xdstest.Serve(t, config)
	d := newDial()
	world := d.resources(t)
	up, _ := difference(nil, world)
	control.Commit(up)
	fakes := []*xdstest.Fake{
		xdstest.StartFake(t, xdstest.FakeConfig{Address: control.Address, Node: "delta"}),
		xdstest.StartFake(t, xdstest.FakeConfig{Address: control.Address, Node: "state", StateOfTheWorld: true}),
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
		control.Commit(upserts, removes...)
		if r.IntN(20) == 0 {
			fakes[0].Reconnect(control.Address)
		}
		if r.IntN(4) > 0 {
			continue // the next change comes while this one is on its way
		}
		for _, f := range fakes {
			deadline := time.Now().Add(20 * time.Second)
			for settled(f, world, &d) != "" && len(f.Violations()) == 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if wrong := settled(f, world, &d); wrong != "" || len(f.Violations()) > 0 {
				received := f.Received()
				t.Fatalf("after step %d: %s %v\n%s\nlast received: %+v\nproxies: %+v", step, wrong, f.Violations(),
					strings.Join(script, "\n"), received[max(0, len(received)-12):], control.Server.Proxies())
			}
		}
	}
}

func names(list []*resource.Resource) (out []string) {
	for _, r := range list {
		out = append(out, r.Ref.String()+"@"+r.Version[:4])
	}
	return out
}
