package xdstest_test

import (
	"bytes"
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

// Generation 0 means that a secret is absent. Envoy rejects odd generations.
type secretDial struct {
	certificates [3]int // generation of the certificate of each tenant's listener
	members      [5]int // generation of each member's CA, all in the secret "trust"
	limit        int    // limit of all listeners: a change rebuilds each listener
}

func (d *secretDial) turn(r *rand.Rand) {
	switch r.IntN(5) {
	case 0, 1:
		d.certificates[r.IntN(len(d.certificates))] = r.IntN(5)
	case 4:
		d.limit = r.IntN(2)
	default:
		d.members[r.IntN(len(d.members))] = r.IntN(5)
	}
}

func text(name string, generation int) []byte {
	if generation%2 == 1 {
		return fmt.Appendf(nil, "%s %s %d;", xdstest.BadPEM, name, generation)
	}
	return fmt.Appendf(nil, "good %s %d;", name, generation)
}

func (d *secretDial) resources(t *testing.T) map[resource.Ref]*resource.Resource {
	out := map[resource.Ref]*resource.Resource{}
	put := func(r *resource.Resource) { out[r.Ref] = r }
	put(xdstest.Cluster(t, "a", 0))
	put(xdstest.Endpoints(t, "a", 1))
	put(xdstest.Routes(t, "routes", "a"))
	for i, generation := range d.certificates {
		if name := fmt.Sprint("s", i); generation > 0 {
			put(membersListener(t, fmt.Sprint("l", i), uint32(1000+i), name, uint32(1000+d.limit)))
			put(pair(t, name, text(name, generation), []byte("key")))
		}
	}
	all := []*member{{name: "always", ca: text("always", 2)}}
	for i, generation := range d.members {
		if name := fmt.Sprint("m", i); generation > 0 {
			all = append(all, &member{name: name, ca: text(name, generation)})
		}
	}
	put(trust(t, all...))
	return out
}

// wrong lists how a proxy's secrets and rejections differ from d.
func (d *secretDial) wrong(s *xdstest.Simulation, world map[resource.Ref]*resource.Resource) string {
	var wrong, want []string
	for i, generation := range d.certificates {
		name := fmt.Sprint("s", i)
		ref := resource.Ref{Type: resource.Secret, Name: name}
		if version, _ := s.Has(ref); generation > 0 && generation%2 == 0 && version != world[ref].Version {
			wrong = append(wrong, name+" is not in force")
		}
		if generation%2 == 1 {
			want = append(want, ref.String())
		}
	}
	trusted := s.Secret("trust")
	for i, generation := range d.members {
		if d.certificates == [3]int{} {
			break // no listener uses the secret "trust"
		}
		name := fmt.Sprint("m", i)
		if generation > 0 && bytes.Contains(trusted, text(name, generation)) != (generation%2 == 0) {
			wrong = append(wrong, fmt.Sprintf("%s has generation %d, and trusted is %q", name, generation, trusted))
		}
		if generation%2 == 1 {
			want = append(want, "secret trust "+name)
		}
	}
	got := slices.DeleteFunc(strings.Split(rejectedBy(s, world), ", "), func(r string) bool {
		i := slices.Index([]string{"listener l0", "listener l1", "listener l2"}, r)
		// The listener's own certificate is rejected.
		return r == "" || i >= 0 && d.certificates[i]%2 == 1
	})
	if slices.Sort(want); !slices.Equal(got, want) {
		wrong = append(wrong, fmt.Sprintf("reported: %s; want %s", got, want))
	}
	return strings.Join(append(wrong, s.Violations()...), ", ")
}

// Faulty secrets must not affect other tenants and members, even at proxies that have just started
// or reconnected.
func TestSecrets_RandomChangesHarmTheirAuthorsAlone(t *testing.T) {
	const steps = 40
	for seed := range uint64(40) {
		// A state-of-the-world response repeats all listeners, so no rejected listener may change.
		state := seed%2 == 1
		r := rand.New(rand.NewPCG(seed, 0))
		var d secretDial
		world := d.resources(t)
		store := storeOf(world)
		config := publish.Config{Watchdog: time.Hour}
		var sims []*xdstest.Simulation
		start := func(node string) {
			fake := xdstest.FakeConfig{Node: node, StateOfTheWorld: state}
			sims = append(sims, xdstest.Simulate(t, fake, store, config))
		}
		start("old")
		for step := range steps {
			for range 1 + r.IntN(3) {
				d.turn(r)
			}
			if state {
				d.limit = 0
			}
			next := d.resources(t)
			upserts, removes := difference(world, next)
			world = next
			store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts, Removes: removes})
			if r.IntN(8) == 0 {
				sims[r.IntN(len(sims))].Connect(store)
			}
			for _, s := range sims {
				for range r.IntN(24) {
					s.Step(r)
				}
			}
			if r.IntN(4) > 0 {
				continue
			}
			start(fmt.Sprintf("fresh in step %d", step))
			for _, s := range sims {
				s.Settle(r)
				if wrong := d.wrong(s, world); wrong != "" {
					received := s.Received()
					t.Fatalf("seed %d, step %d, %s: %s, want the secrets of the world\n%v\nlast received: %s",
						seed, step, s.Node(), wrong, d, shown(received[max(0, len(received)-20):]))
				}
			}
			sims = sims[:1]
		}
	}
}
