package failback

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// world has an import of east, north and west, in the order west, east, and a Keeper that follows
// its translation.
type world struct {
	t     *testing.T
	store *store.Store
	trans *translator.Translator
	sub   *store.Subscription
	keep  *Keeper
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: store.New(), trans: translator.New(translator.Config{})}
	w.sub = w.store.Subscribe()
	w.keep = New(w.store, slog.New(slog.DiscardHandler))
	go func() { _ = w.keep.Run(t.Context()) }() // ends with the test
	policy := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	policy.Spec.TargetRef = v1alpha1.PoolRef{Kind: "InferencePoolImport", Name: "chat"}
	policy.Spec.Selection = &v1alpha1.SelectionSpec{Policy: v1alpha1.SelectPriority, Order: []string{"west", "east"}}
	w.apply(store.AddressPolicies.Put(addresses.Unrestricted()), store.PoolPolicies.Put(policy))
	return w
}

func (w *world) apply(ops ...store.Op) {
	w.t.Helper()
	if _, err := w.store.Apply(ops...); err != nil {
		w.t.Fatal(err)
	}
	w.follow()
}

// follow translates the store and passes the result to the Keeper, until nothing changes any more.
func (w *world) follow() {
	for {
		revisions, view := w.sub.Pending()
		if len(revisions) == 0 {
			return
		}
		var changes []store.Change
		for _, r := range revisions {
			changes = append(changes, r.Changes...)
		}
		w.keep.Follow(w.trans.Update(view, changes).Ordered)
	}
}

// clusters replaces the import's clusters. "!" before a name means not ready.
func (w *world) clusters(names ...string) {
	w.t.Helper()
	imp := &inferenceapi.InferencePoolImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chat"}}
	for _, name := range names {
		c := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.ParentMode}
		if name[0] == '!' {
			name = name[1:]
			c.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Draining"}}
		}
		c.Name = name
		c.Parents = []inferenceapi.ParentImport{
			{
				Service: inferenceapi.ServiceImports{
					{Addresses: []string{"192.0.2.1"}, Ports: []inferenceapi.Port{{Number: 80}}},
				},
			},
		}
		imp.Status.Clusters = append(imp.Status.Clusters, c)
	}
	w.apply(store.InferencePoolImports.Put(imp))
}

// order returns the current order of the clusters.
func (w *world) order() (names []string) {
	w.t.Helper()
	w.follow()
	imp, ok := inference.Import(w.store.View(), "default/chat")
	if !ok {
		w.t.Fatal("no import")
	}
	takers := slices.DeleteFunc(slices.Clone(imp.Members), func(m model.ImportMember) bool { return !m.Takes() })
	slices.SortFunc(takers, func(a, b model.ImportMember) int { return int(a.Priority) - int(b.Priority) })
	for _, m := range takers {
		names = append(names, m.Name)
	}
	return names
}

func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := w.order(); !slices.Equal(got, want) {
		w.t.Fatalf("%s: requests go to %v, want %v", time.Now().Format("05.000"), got, want)
	}
}

func TestFailback_ClusterThatFlapsIsNotFirstUntilItStaysReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		// The first cluster becomes ready at once, because this process has never seen it ready.
		w.clusters("east", "north", "!west")
		w.expect("east", "north")
		w.clusters("east", "north", "west")
		w.expect("west", "east", "north")
		for range 20 {
			w.clusters("east", "north", "!west")
			w.expect("east", "north") // a cluster that leaves is not delayed
			time.Sleep(500 * time.Millisecond)
			w.clusters("east", "north", "west")
			w.expect("east", "north", "west")
			time.Sleep(500 * time.Millisecond)
			w.expect("east", "north", "west")
		}
		// west became ready half a second ago.
		time.Sleep(2 * time.Second)
		w.expect("east", "north", "west")
		time.Sleep(2500 * time.Millisecond)
		w.expect("west", "east", "north")
		if left := store.Failbacks.All(w.store.View()); len(left) != 0 {
			t.Errorf("%+v is left, want none", left[0])
		}
	})
}

func TestFailback_ClusterWhoseEntryFlapsIsNotFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters("east", "west")
		w.expect("west", "east")
		for range 5 {
			w.clusters("east")
			time.Sleep(500 * time.Millisecond)
			w.clusters("east", "west")
			w.expect("east", "west")
			time.Sleep(500 * time.Millisecond)
		}
		// Clusters that left are dropped, and so is an import that has no order any more.
		w.clusters("east")
		time.Sleep(4 * time.Second)
		if w.follow(); len(w.keep.imports[objectid.Pool{Namespace: "default", Name: "chat"}].members) != 1 ||
			len(store.Failbacks.All(w.store.View())) != 0 {
			t.Errorf("got %+v, want one member, and no Failback",
				w.keep.imports[objectid.Pool{Namespace: "default", Name: "chat"}])
		}
		w.clusters("east", "!west")
		w.clusters("!east", "west")
		w.apply(store.PoolPolicies.Delete("default/p"))
		if w.follow(); len(w.keep.imports) != 0 || len(store.Failbacks.All(w.store.View())) != 0 {
			t.Errorf("got %+v, want no import, and no Failback", w.keep.imports)
		}
	})
}

// If all clusters become ready and unready in turns, they serve in their usual order.
func TestFailback_ClustersThatAllFlapServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters("east", "west")
		w.clusters("!east", "!west")
		w.clusters("east", "west")
		w.expect("west", "east")
	})
}
