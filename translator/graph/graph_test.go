package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/graph"
)

// world is a small translation: pods say in the label "wants" which services they want; a service wanted by somebody
// has a row, which reads its ConfigMap, whether it exists or not; a zone gathers the services that name it.
type world struct {
	wants, services, zones *graph.Table[string]
}

func newWorld() *world {
	w := &world{}
	w.wants = &graph.Table[string]{
		Name:    "wants",
		Sources: []graph.Source{{Table: "Pod", Index: store.ByID}},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			p, _ := store.Pods.Get(r, key)
			return p.Labels["wants"], p.Labels["wants"] != ""
		},
		Indexes: []graph.Index[string]{{Name: "service", Keys: func(_, v string) []string { return strings.Split(v, "_") }}},
	}
	w.services = &graph.Table[string]{
		Name:    "services",
		Sources: []graph.Source{{Table: "wants", Index: "service"}},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			zone := "nowhere"
			if c, ok := store.ConfigMaps.Get(r, "default/"+key); ok {
				zone = c.Data["zone"]
			}
			return zone, true
		},
		Indexes: []graph.Index[string]{{Name: "zone", Keys: func(_, v string) []string { return []string{v} }}},
	}
	w.zones = &graph.Table[string]{
		Name:    "zones",
		Sources: []graph.Source{{Table: "services", Index: "zone"}},
		Compute: func(r *graph.Reader, key string) (string, bool) {
			var names []string
			for _, row := range w.services.By(r, "zone", key) {
				pods := w.wants.By(r, "service", row.Key)
				names = append(names, fmt.Sprintf("%s(%d)", row.Key, len(pods)))
			}
			return strings.Join(names, " "), key != "hidden"
		},
	}
	return w
}

func (w *world) engine() *graph.Engine { return graph.New(w.wants, w.services, w.zones) }

func (w *world) dump(e *graph.Engine) map[string][]graph.Row[string] {
	r := e.Reader()
	return map[string][]graph.Row[string]{
		"wants":    w.wants.By(r, graph.ByAll, ""),
		"services": w.services.By(r, graph.ByAll, ""),
		"zones":    w.zones.By(r, graph.ByAll, ""),
	}
}

func wanting(name, services string) store.Op {
	return store.Pods.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"wants": services}}})
}

func inZone(service, zone string) store.Op {
	return store.ConfigMaps.Put(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: service}, Data: map[string]string{"zone": zone}})
}

// lab is a store with an engine behind it.
type lab struct {
	*testing.T
	*world
	store  *store.Store
	engine *graph.Engine
}

func newLab(t *testing.T) *lab {
	s := store.New()
	w := newWorld()
	return &lab{t, w, s, w.engine()}
}

func (l *lab) apply(ops ...store.Op) *graph.Diff {
	l.Helper()
	rev, err := l.store.Apply(ops...)
	if err != nil {
		l.Fatal(err)
	}
	return l.engine.Update(l.store.View(), rev.Changes)
}

func TestIncrementalEqualsFreshAfterAnySequence(t *testing.T) {
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
					ops = append(ops, inZone(name("s", 4), []string{"a", "b", "hidden"}[rng.IntN(3)]))
				case 4:
					ops = append(ops, store.ConfigMaps.Delete("default/"+name("s", 4)))
				}
			}
			l.apply(ops...)
			fresh := l.world.engine()
			view := l.store.View()
			fresh.Update(view, store.Everything(view))
			if diff := cmp.Diff(l.dump(fresh), l.dump(l.engine)); diff != "" {
				t.Fatalf("seed %d step %d: incremental differs from fresh (-fresh +incremental):\n%s", seed, step, diff)
			}
		}
	}
}

func TestARowLivesWhileSomebodyRefersToIt(t *testing.T) {
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
	if got := l.services.Changes(d); len(got) != 1 || got[0].Has || got[0].Old != "nowhere" {
		t.Errorf("changes: %+v", got)
	}
}

func TestReadingWhatIsNotThereIsADependency(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"))
	l.apply(inZone("s1", "a"))
	if zone, _ := l.services.Get(l.engine.Reader(), "s1"); zone != "a" {
		t.Errorf("zone is %q: the ConfigMap that came later was not seen", zone)
	}
}

func TestWorkStopsWhereAResultComesOutEqual(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), inZone("s1", "a"))
	d := l.apply(store.ConfigMaps.Put(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s1", Labels: map[string]string{"new": "label"}},
		Data:       map[string]string{"zone": "a"},
	}))
	if diff := cmp.Diff(map[string]int{"services": 1}, d.Computed); diff != "" {
		t.Errorf("computed:\n%s", diff)
	}
	if len(d.Changed) != 0 {
		t.Errorf("changed: %v", d.Changed)
	}
}

func TestWhatARowStillRefersToIsNotComputedAgain(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), inZone("s1", "a"), inZone("s2", "a"))
	d := l.apply(wanting("p1", "s1_s2"))
	if d.Computed["services"] != 1 {
		t.Errorf("computed: %v, want s2 alone of the services", d.Computed)
	}
}

func TestAnUnrelatedChangeComputesNothing(t *testing.T) {
	l := newLab(t)
	l.apply(wanting("p1", "s1"), inZone("s1", "a"))
	if d := l.apply(inZone("s9", "a")); len(d.Computed) != 0 {
		t.Errorf("computed: %v", d.Computed)
	}
}

func TestATableMayOnlyReadEarlierOnes(t *testing.T) {
	late := &graph.Table[string]{Name: "late", Sources: []graph.Source{{Table: "Pod", Index: store.ByID}}, Compute: func(*graph.Reader, string) (string, bool) { return "", true }}
	early := &graph.Table[string]{Name: "early", Sources: []graph.Source{{Table: "Pod", Index: store.ByID}}, Compute: func(r *graph.Reader, key string) (string, bool) { return late.Get(r, key) }}
	s := store.New()
	rev, _ := s.Apply(wanting("p", "s"))
	defer func() {
		if recover() == nil {
			t.Error("reading a later table went unnoticed")
		}
	}()
	graph.New(early, late).Update(s.View(), rev.Changes)
}
