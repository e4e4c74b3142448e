package graph_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
)

type zone struct{ region, name string }

func (z zone) compare(o zone) int {
	return cmp.Or(strings.Compare(z.region, o.region), strings.Compare(z.name, o.name))
}

// world has four tables: wants has each pod's label "wants" (a list of services), services has the
// zone of each wanted service (from its ConfigMap), zones has the services of each zone, and copies
// has the first service of each pod.
type world struct {
	engine    *graph.Engine
	wants     *graph.Table[string, string]
	wanted    *graph.Index[string, string, string]
	services  *graph.Table[string, zone]
	serviceIn *graph.Index[string, zone, zone]
	zones     *graph.Table[zone, string]
	copies    *graph.Table[string, string]
}

func newWorld() *world {
	w := &world{engine: graph.New()}
	w.wants = graph.Declare(w.engine, graph.Table[string, string]{
		Name:    "wants",
		Order:   strings.Compare,
		Sources: []graph.Source[string]{w.engine.Stored("Pod", store.ByID)},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			p, _ := store.Pods.Get(r, key)
			return p.Labels["wants"], p.Labels["wants"] != ""
		},
	})
	w.wanted = graph.NewIndex(w.wants, "service", func(_, v string) []string { return strings.Split(v, "_") })
	w.services = graph.Declare(w.engine, graph.Table[string, zone]{
		Name:    "services",
		Order:   strings.Compare,
		Sources: []graph.Source[string]{w.wanted},
		Compute: func(r *graph.Reader, key string) (zone, bool) {
			if c, ok := store.ConfigMaps.Get(r, "default/"+key); ok {
				return zone{"eu", c.Data["zone"]}, c.Data["zone"] != "none"
			}
			return zone{name: "nowhere"}, true
		},
	})
	w.serviceIn = graph.NewIndex(w.services, "zone", func(_ string, v zone) []zone { return []zone{v} })
	w.zones = graph.Declare(w.engine, graph.Table[zone, string]{
		Name:    "zones",
		Order:   zone.compare,
		Sources: []graph.Source[zone]{w.serviceIn},
		Compute: func(r *graph.Reader, key zone) (string, bool) {
			var names []string
			for _, row := range w.serviceIn.By(r, key) {
				pods, _ := w.wanted.Each(r, row.Key)
				names = append(names, fmt.Sprintf("%s(%d)", row.Key, pods))
			}
			return strings.Join(names, " "), key.name != "hidden"
		},
	})
	w.copies = graph.Declare(w.engine, graph.Table[string, string]{
		Name:    "copies",
		Order:   strings.Compare,
		Sources: []graph.Source[string]{w.wants},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			services, _ := w.wants.Get(r, key)
			first, _, _ := strings.Cut(services, "_")
			v, ok := w.services.Get(r, first)
			return fmt.Sprint(first, " ", v.name, " ", ok), true
		},
	})
	return w
}

func (w *world) dump() map[string]string {
	r, out := w.engine.Reader(), map[string]string{}
	for k, v := range w.wants.All(r) {
		out["pod "+k] = v
	}
	for k, v := range w.services.All(r) {
		out["service "+k] = v.region + "/" + v.name
	}
	for k, v := range w.copies.All(r) {
		out["copy "+k] = v
	}
	for k, v := range w.zones.All(r) {
		out["zone "+k.region+"/"+k.name] = v
	}
	return out
}

func wanting(name, services string) store.Op {
	return store.Pods.Put(
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
				Labels: map[string]string{"wants": services}},
		})
}

func inZone(service, zone string) store.Op {
	return store.ConfigMaps.Put(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: service}, Data: map[string]string{"zone": zone},
	})
}

type lab struct {
	*testing.T
	*world
	store *store.Store
}

func newLab(t *testing.T) *lab {
	return &lab{t, newWorld(), store.New()}
}

func (l *lab) apply(ops ...store.Op) *graph.Diff {
	l.Helper()
	rev, err := l.store.Apply(ops...)
	if err != nil {
		l.Fatal(err)
	}
	return l.engine.Update(l.store.View(), rev.Changes)
}

func TestGraph_IncrementalEqualsFreshAfterAnySequence(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		l := newLab(t)
		name := func(kind string, n int) string { return fmt.Sprint(kind, rng.IntN(n)) }
		for step := range 30 {
			var ops []store.Op
			for range 1 + rng.IntN(3) {
				switch rng.IntN(5) {
				case 0, 1:
					ops = append(ops, wanting(name("pod", 6), name("s", 4)+"_"+name("s", 4)))
				case 2:
					ops = append(ops, store.Pods.Delete("default/"+name("pod", 6)))
				case 3:
					ops = append(ops, inZone(name("s", 4), []string{"a", "b", "none", "hidden"}[rng.IntN(4)]))
				case 4:
					ops = append(ops, store.ConfigMaps.Delete("default/"+name("s", 4)))
				}
			}
			l.apply(ops...)
			fresh := newWorld()
			view := l.store.View()
			fresh.engine.Update(view, store.Everything(view))
			if diff := gocmp.Diff(fresh.dump(), l.dump()); diff != "" {
				t.Fatalf("seed %d step %d (-want, fresh +got, incremental):\n%s", seed, step, diff)
			}
		}
	}
}

func TestGraph_RowLivesWhileReferenced(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), wanting("p2", "s1"))
	l.apply(store.Pods.Delete("default/p1"))
	if _, ok := l.services.Get(l.engine.Reader(), "s1"); !ok {
		t.Error("the row went while p2 still refers to it")
	}
	d := l.apply(store.Pods.Delete("default/p2"))
	if _, ok := l.services.Get(l.engine.Reader(), "s1"); ok {
		t.Error("the row stayed after the last reference")
	}
	if got := l.services.Changes(d); len(got) != 1 || got[0].Has || got[0].Old.name != "nowhere" {
		t.Errorf("changes: got %+v, want one that removes nowhere", got)
	}
}

func TestGraph_ReadOfAMissingObjectIsADependency(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"))
	l.apply(inZone("s1", "a"))
	if zone, _ := l.services.Get(l.engine.Reader(), "s1"); zone.name != "a" {
		t.Errorf("zone is %v, want a: the ConfigMap came later", zone)
	}
}

func TestGraph_StopsAtAnEqualResult(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), inZone("s1", "a"))
	d := l.apply(store.ConfigMaps.Put(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s1", Labels: map[string]string{"new": "label"}},
		Data:       map[string]string{"zone": "a"},
	}))
	if diff := gocmp.Diff(map[string]int{"services": 1}, d.Computed); diff != "" {
		t.Errorf("computed (-want +got):\n%s", diff)
	}
	if len(d.Changed) != 0 {
		t.Errorf("changed: %v, want none", d.Changed)
	}
}

func TestGraph_RemainingReferenceIsNotRecomputed(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), inZone("s1", "a"), inZone("s2", "a"))
	d := l.apply(wanting("p1", "s1_s2"))
	if d.Computed["services"] != 1 {
		t.Errorf("computed: %v, want s2 alone of the services", d.Computed)
	}
}

func TestGraph_UnrelatedChangeRecomputesNothing(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), inZone("s1", "a"))
	if d := l.apply(inZone("s9", "a")); len(d.Computed) != 0 {
		t.Errorf("computed: %v, want none", d.Computed)
	}
}

func TestGraph_DemandNamesTheKeysThatBeginAndCeaseToBeRead(t *testing.T) {
	l := newLab(t)
	l.engine.Demand("ConfigMap")
	key := graph.Key{Table: "ConfigMap", Index: store.ByID, Key: "default/s1"}
	if d := l.apply(wanting("p1", "s1")); !slices.Equal(d.Wanted, []graph.Key{key}) || len(d.Unwanted) != 0 {
		t.Errorf("wanted %v, unwanted %v", d.Wanted, d.Unwanted)
	}
	if d := l.apply(wanting("p2", "s1")); len(d.Wanted)+len(d.Unwanted) != 0 {
		t.Errorf("a second reader: wanted %v, unwanted %v", d.Wanted, d.Unwanted)
	}
	if d := l.apply(store.Pods.Delete("default/p1"), store.Pods.Delete("default/p2")); !slices.Equal(d.Unwanted,
		[]graph.Key{key}) || len(d.Wanted) != 0 {
		t.Errorf("without readers: wanted %v, unwanted %v", d.Wanted, d.Unwanted)
	}
}

// zoned returns a lab with service s1 in zone a. Rows wait for ConfigMaps that they start to read.
func zoned(t *testing.T) *lab {
	l := newLab(t)
	l.engine.Demand("ConfigMap")
	l.apply(wanting("p1", "s1"), inZone("s1", "a"))
	l.engine.WaitForDemands()
	return l
}

func (l *lab) arrive(services ...string) *graph.Diff {
	var keys []graph.Key
	for _, s := range services {
		keys = append(keys, graph.Key{Table: "ConfigMap", Index: store.ByID, Key: "default/" + s})
	}
	return l.engine.Update(l.store.View(), nil, keys...)
}

func TestGraph_RowWaitsForWhatIsReadOnDemand(t *testing.T) {
	l := zoned(t)
	if d := l.apply(wanting("p2", "s2")); len(d.Wanted) != 1 {
		t.Fatalf("wanted: %v", d.Wanted)
	}
	if v, ok := l.services.Get(l.engine.Reader(), "s2"); ok {
		t.Errorf("s2 is %v, want no row: its ConfigMap has not arrived", v)
	}
	l.apply(wanting("p1", "s1_s3"), inZone("s1", "b"))
	if v, _ := l.services.Get(l.engine.Reader(), "s1"); v.name != "b" {
		t.Errorf(`s1 is in zone %q: it waits for what other rows read, want "b"`, v.name)
	}
	l.arrive("s2") // the key arrives without an object
	if v, _ := l.services.Get(l.engine.Reader(), "s2"); v.name != "nowhere" {
		t.Errorf("s2 is %v after all that exists has arrived, want nowhere", v)
	}
}

func TestGraph_RowKeepsItsValueWhileItWaits(t *testing.T) {
	l := newLab(t)
	l.engine.Demand("ConfigMap")
	l.apply(wanting("p1", "s1"), inZone("s1", "a"), inZone("s2", "b"))
	l.engine.WaitForDemands()
	copied := func() string {
		v, _ := l.copies.Get(l.engine.Reader(), "default/p1")
		return v
	}
	l.apply(wanting("p1", "s2"))
	if got := copied(); got != "s1 a true" {
		t.Errorf("the row that reads a waiting one is %q, want its last value", got)
	}
	if d := l.arrive("s2"); len(l.copies.Changes(d)) != 1 || copied() != "s2 b true" {
		t.Errorf(`after the arrival it is %q, want one change to "s2 b true"`, copied())
	}
	l.apply(wanting("p1", "s3"), inZone("s3", "none"))
	if l.arrive("s3"); copied() != "s3  false" {
		t.Errorf(`after it was found that the row it waited for does not exist, it is %q, want "s3  false"`, copied())
	}
}

// A pod stands for a Gateway, and a ConfigMap for its certificate. The old certificate is deleted
// before the new certificate arrives. Until then, the row of the old certificate must stay.
func TestGraph_RowThatIsNamedByALastValueStays(t *testing.T) {
	e, s := graph.New(), store.New()
	gateways := graph.Declare(e, graph.Table[string, string]{
		Name: "gateways", Order: strings.Compare, Sources: []graph.Source[string]{e.Stored("Pod", store.ByID)},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			p, _ := store.Pods.Get(r, key)
			store.ConfigMaps.Get(r, "default/"+p.Labels["wants"])
			return p.Labels["wants"], true
		},
	})
	certificates := graph.Declare(e, graph.Table[string, string]{
		Name: "certificates", Order: strings.Compare,
		Sources: []graph.Source[string]{
			graph.NewIndex(gateways, "certificate",
				func(_, certificate string) []string { return []string{certificate} }),
		},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			c, ok := store.ConfigMaps.Get(r, "default/"+key)
			if !ok {
				return "", false
			}
			return c.Data["zone"], true
		},
	})
	e.Demand("ConfigMap")
	update := func(arrived []graph.Key, ops ...store.Op) (names []string) {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		e.Update(s.View(), rev.Changes, arrived...)
		for name := range certificates.All(e.Reader()) {
			names = append(names, name)
		}
		return names
	}
	update(nil, wanting("gw", "old"), inZone("old", "a"))
	e.WaitForDemands()
	if got := update(nil, wanting("gw", "new"), store.ConfigMaps.Delete("default/old")); !slices.Equal(got,
		[]string{"old"}) {
		t.Errorf("while the new certificate is waited for, there are %q, want the old one", got)
	}
	if got := update([]graph.Key{{Table: "ConfigMap", Index: store.ByID, Key: "default/new"}},
		inZone("new", "b")); !slices.Equal(got, []string{"new"}) {
		t.Errorf("after the arrival there are %q, want the new one", got)
	}
}

func TestGraph_RowsThatWaitedEqualFresh(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		l := zoned(t)
		late := map[graph.Key]bool{}
		note := func(d *graph.Diff) {
			for _, k := range d.Wanted {
				late[k] = true
			}
			for _, k := range d.Unwanted {
				delete(late, k)
			}
		}
		some := func(oneIn int) (keys []graph.Key) {
			for _, k := range slices.SortedFunc(maps.Keys(late), graph.Key.Compare) {
				if rng.IntN(oneIn) == 0 {
					keys = append(keys, k)
					delete(late, k)
				}
			}
			return keys
		}
		name := func(kind string, n int) string { return fmt.Sprint(kind, rng.IntN(n)) }
		for step := range 30 {
			ops := []store.Op{wanting(name("pod", 6), name("s", 6)+"_"+name("s", 6)),
				inZone(name("s", 6), []string{"a", "b", "none", "hidden"}[rng.IntN(4)])}
			if rng.IntN(2) == 0 {
				ops = append(ops, store.Pods.Delete("default/"+name("pod", 6)))
			}
			rev, err := l.store.Apply(ops...)
			if err != nil {
				t.Fatal(err)
			}
			note(l.engine.Update(l.store.View(), rev.Changes, some(3)...))
			if step%5 != 4 {
				continue
			}
			for len(late) > 0 {
				note(l.engine.Update(l.store.View(), nil, some(1)...))
			}
			fresh := newWorld()
			view := l.store.View()
			fresh.engine.Update(view, store.Everything(view))
			if diff := gocmp.Diff(fresh.dump(), l.dump()); diff != "" {
				t.Fatalf("seed %d step %d, when everything has arrived (-want, fresh +got, incremental):\n%s",
					seed, step, diff)
			}
		}
	}
}

func TestGraph_TableReadsOnlyEarlierOnes(t *testing.T) {
	e := graph.New()
	var late *graph.Table[string, string]
	table := func(name string, compute func(*graph.Reader, string) (string, bool)) *graph.Table[string, string] {
		return graph.Declare(e, graph.Table[string, string]{
			Name: name, Order: strings.Compare, Sources: []graph.Source[string]{e.Stored("Pod", store.ByID)},
			Compute: compute,
		})
	}
	table("early", func(r *graph.Reader, key string) (string, bool) { return late.Get(r, key) })
	late = table("late", func(*graph.Reader, string) (string, bool) { return "", true })
	s := store.New()
	rev, _ := s.Apply(wanting("p", "s"))
	defer func() {
		if recover() == nil {
			t.Error("a table read a later one without a panic")
		}
	}()
	e.Update(s.View(), rev.Changes)
}

func TestGraph_ExplainNamesCauseReadsAndReaders(t *testing.T) {
	w, s := newWorld(), store.New()
	apply := func(ops ...store.Op) {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		w.engine.Update(s.View(), rev.Changes)
	}
	apply(
		store.Pods.Put(
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p",
					Labels: map[string]string{"wants": "web"}},
			}))
	apply(
		store.ConfigMaps.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Data: map[string]string{"zone": "a"}}))

	want := []graph.Explanation{{
		Table: "services", Key: "web", Exists: true, Computed: 2, Changed: 2,
		Cause: "store ConfigMap by id: default/web",
		Reads: []string{"store ConfigMap by id: default/web"}, Readers: []string{"copies: default/p"},
	}}
	if diff := gocmp.Diff(want, w.engine.Explain("web")); diff != "" {
		t.Errorf("of the service (-want +got):\n%s", diff)
	}
	zone := w.engine.Explain("eu")
	if len(zone) != 1 || zone[0].Cause != "" || !slices.Contains(zone[0].Reads, "services by zone: {eu a}") ||
		!slices.Contains(zone[0].Reads, "wants by service: web") {
		t.Errorf("of a key that contains the text: got %+v, want one row with its reads by zone and by service", zone)
	}
	if list := w.engine.Explain("no such key"); len(list) != 0 {
		t.Errorf("an unknown key has rows: %+v, want none", list)
	}
}
