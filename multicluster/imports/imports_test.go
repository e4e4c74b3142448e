package imports_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// world is an importer with its registry and store.
type world struct {
	*imports.Importer
	t        *testing.T
	registry *registry.Registry
	store    *store.Store
	sequence uint64
}

// newWorld makes a world with the members in allow. A member whose entry names no namespaces or
// pools may export from the namespaces that tests use.
func newWorld(t *testing.T, allow map[string]v1alpha1.ClusterSetAllow) *world {
	t.Helper()
	w := &world{t: t, registry: registry.New(registry.Config{}), store: store.New()}
	w.Importer = imports.New(imports.Config{Registry: w.registry, Store: w.store,
		Namespace: func(name string) bool { return name != "missing" }})
	w.registry.SetMembers(slices.Collect(maps.Keys(allow)))
	named := map[string]v1alpha1.ClusterSetAllow{}
	for name, a := range allow {
		if len(a.Namespaces)+len(a.Pools) == 0 {
			a.Namespaces = []string{"ns", "a", "b", "missing"}
		}
		named[name] = a
	}
	w.assemble(w.SetAllow(named))
	return w
}

// export makes a member export exactly these pools, "namespace/name", with n endpoints each.
func (w *world) export(member string, n int, pools ...string) (placed string) {
	w.t.Helper()
	w.sequence++
	u := registry.Update{Member: member, UID: member, Stamp: registry.Stamp{Epoch: 1, Sequence: w.sequence},
		Snapshot: true}
	for _, p := range pools {
		namespace, name, _ := objectid.Split(p)
		e := registry.Export{Pool: objectid.Pool{Namespace: namespace, Name: name}, Stamp: u.Stamp,
			Entry: inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000}}
		for i := range n {
			e.Entry.Endpoints = append(e.Entry.Endpoints,
				inferenceapi.ImportedEndpoint{Address: fmt.Sprint("10.0.0.", i)})
		}
		u.Exports = append(u.Exports, e)
	}
	changed, rejected := w.registry.Apply(u)
	if len(rejected) > 0 {
		w.t.Fatal(rejected)
	}
	return w.assemble(changed)
}

func (w *world) assemble(changed []objectid.Pool) (placed string) {
	w.t.Helper()
	a, err := w.Assemble(changed)
	if err != nil {
		w.t.Fatal(err)
	}
	var parts []string
	for _, p := range a.Placed {
		parts = append(parts, fmt.Sprintf("%s/%s of %s: %s", p.Pool.Namespace, p.Pool.Name, p.Member, p.Reason))
	}
	return strings.Join(parts, "; ")
}

// offers describes the Offers in the store.
func (w *world) offers() string {
	var parts []string
	for _, o := range store.Offers.All(w.store.View()) {
		text := fmt.Sprintf("%s %d", store.ID(o), len(o.Cluster.Endpoints))
		for _, c := range o.Cluster.Conditions {
			text += fmt.Sprintf(" %s=%s %s", c.Type, c.Status, c.Reason)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// After an operator removes a member, its exports drain. They must stay within the limits that the
// member had.
func TestImports_ThatDrainAreWithinWhatTheMemberWasAllowed(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{
		"east": {Namespaces: []string{"ns"}, Addresses: []string{"192.0.2.0/24"}, Exports: new(int32(1))},
	})
	w.export("east", 1, "ns/chat", "ns/more", "private/chat")
	if got := w.offers(); got != "ns/chat.east 1" {
		t.Errorf(`as a member: %s, want "ns/chat.east 1"`, got)
	}
	w.assemble(slices.Concat(w.registry.SetMembers(nil), w.SetAllow(nil)))
	if got := w.offers(); got != "ns/chat.east 1 Ready=False Draining" {
		t.Errorf(`removed from the set: %s, want "ns/chat.east 1 Ready=False Draining"`, got)
	}
	if o, ok := store.Offers.Get(w.store.View(), "ns/chat.east"); !ok ||
		!slices.Equal(o.Allowed, []string{"192.0.2.0/24"}) {
		t.Errorf("removed from the set: got addresses %v, want 192.0.2.0/24", o.Allowed)
	}
}

func TestImports_FollowWhatMembersExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{
			"east": {Addresses: []string{"192.0.2.0/24"}, PodCIDRs: []string{"10.0.0.0/8"}}, "west": {},
		})
		if got := w.export("east", 2, "ns/chat"); got != "ns/chat of east: " {
			t.Errorf(`placed: %s, want "ns/chat of east: "`, got)
		}
		w.export("west", 1, "ns/chat")
		if got := w.offers(); got != "ns/chat.east 2; ns/chat.west 1" {
			t.Errorf(`offers: %s, want "ns/chat.east 2; ns/chat.west 1"`, got)
		}
		if o, _ := store.Offers.Get(w.store.View(), "ns/chat.east"); o.Allowed[0] != "192.0.2.0/24" ||
			o.Pods[0] != "10.0.0.0/8" || o.Cluster.Name != "east" || o.Import != "chat" {
			t.Errorf("got %+v, want 192.0.2.0/24, pods 10.0.0.0/8, cluster east, import chat", o)
		}
		if got := w.export("east", 0); got != "ns/chat of west: " { // withdrawn exports have no report
			t.Errorf(`placed: %s, want "ns/chat of west: "`, got)
		}
		if got := w.offers(); got != "ns/chat.east 2 Ready=False Draining; ns/chat.west 1" {
			t.Errorf("withdrawn: %s, want %q", got, "ns/chat.east 2 Ready=False Draining; ns/chat.west 1")
		}
		time.Sleep(10 * time.Minute)
		w.assemble(w.registry.Expire())
		if got := w.offers(); got != "ns/chat.west 1 Ready=Unknown Stale" {
			t.Errorf(`collected: %s, want "ns/chat.west 1 Ready=Unknown Stale"`, got)
		}
		w.assemble(w.registry.Connected("west", false))
		if got := w.offers(); got != "ns/chat.west 1 Ready=Unknown Unreachable" {
			t.Errorf(`disconnected: %s, want "ns/chat.west 1 Ready=Unknown Unreachable"`, got)
		}
		w.assemble(w.registry.SetMembers(nil))
		w.assemble(w.SetAllow(nil))
		if got := w.offers(); got != "ns/chat.west 1 Ready=False Draining" {
			t.Errorf("no member any more: got %s, want ns/chat.west 1 Ready=False Draining", got)
		}
	})
}

func TestImports_MemberStaysWithinWhatItIsAllowed(t *testing.T) {
	two, five := int32(2), int32(5)
	for _, c := range []struct {
		allow          v1alpha1.ClusterSetAllow
		placed, offers string
	}{
		{
			v1alpha1.ClusterSetAllow{},
			"a/1 of east: ; a/2 of east: ; b/1 of east: ; missing/1 of east: NamespaceNotFound",
			"a/1.east 3; a/2.east 3; b/1.east 3",
		},
		{v1alpha1.ClusterSetAllow{Namespaces: []string{"b"}},
			"a/1 of east: NotAllowed; a/2 of east: NotAllowed; b/1 of east: ; missing/1 of east: NotAllowed",
			"b/1.east 3"},
		{v1alpha1.ClusterSetAllow{Pools: []string{"a/2", "b/2", "a"}},
			"a/1 of east: NotAllowed; a/2 of east: ; b/1 of east: NotAllowed; missing/1 of east: NotAllowed",
			"a/2.east 3"},
		{v1alpha1.ClusterSetAllow{Namespaces: []string{"b"}, Pools: []string{"a/2"}, Exports: &two},
			"a/1 of east: NotAllowed; a/2 of east: ; b/1 of east: ; missing/1 of east: NotAllowed",
			"a/2.east 3; b/1.east 3"},
		{
			v1alpha1.ClusterSetAllow{Exports: &two},
			"a/1 of east: ; a/2 of east: ; b/1 of east: NotAllowed; missing/1 of east: NamespaceNotFound",
			"a/1.east 3; a/2.east 3",
		},
		{v1alpha1.ClusterSetAllow{Endpoints: &five},
			"a/1 of east: ; a/2 of east: ; b/1 of east: ; missing/1 of east: NamespaceNotFound",
			"a/1.east 3; a/2.east 2; b/1.east 0"},
	} {
		w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": c.allow})
		if got := w.export("east", 3, "a/1", "a/2", "b/1", "missing/1"); got != c.placed {
			t.Errorf("%+v: placed %s, want %s", c.allow, got, c.placed)
		}
		if got := w.offers(); got != c.offers {
			t.Errorf("%+v: offers %s, want %s", c.allow, got, c.offers)
		}
	}
}

// Pools of one member share its limits. If one pool uses more of a limit, less remains for another
// pool, so both are assembled again.
func TestImports_PoolsShareWhatTheirMemberIsAllowed(t *testing.T) {
	two := int32(2)
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {Exports: &two}})
	w.export("east", 1, "a/1", "a/3", "a/4")
	if got := w.offers(); got != "a/1.east 1; a/3.east 1" {
		t.Errorf(`offers: %s, want "a/1.east 1; a/3.east 1"`, got)
	}
	if got := w.export("east", 1, "a/1", "a/2", "a/3",
		"a/4"); got != "a/1 of east: ; a/2 of east: ; a/3 of east: NotAllowed; a/4 of east: NotAllowed" {
		t.Errorf("placed: %s, want %q",
			got, "a/1 of east: ; a/2 of east: ; a/3 of east: NotAllowed; a/4 of east: NotAllowed")
	}
	if got := w.offers(); got != "a/1.east 1; a/2.east 1" {
		t.Errorf(`offers: %s, want "a/1.east 1; a/2.east 1"`, got)
	}
	w.export("east", 1, "a/4") // withdrawn exports drain, and use no limit
	if got := w.offers(); !strings.Contains(got, "a/4.east 1") ||
		!strings.Contains(got, "a/2.east 1 Ready=False Draining") {
		t.Errorf(`offers: %s, want a text with "a/4.east 1" and a text with "a/2.east 1 Ready=False Draining"`, got)
	}
}

// An export that was never imported has no requests in flight, so its withdrawal needs no drain.
func TestImports_WithdrawnExportThatWasNotImportedDrainsNothing(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{
		"east": {Namespaces: []string{"a", "missing"}, Exports: new(int32(2))},
	})
	w.export("east", 1, "a/1", "a/2", "a/3", "b/1", "missing/1")
	w.export("east", 1, "a/1")
	const drains = "a/1.east 1; a/2.east 1 Ready=False Draining"
	if got := w.offers(); got != drains {
		t.Errorf("withdrawn: %s, want %s", got, drains)
	}
	for _, name := range []string{"a/3", "b/1", "missing/1"} {
		namespace, pool, _ := objectid.Split(name)
		if s, imported := w.Status(objectid.Pool{Namespace: namespace, Name: pool}, 1); imported ||
			len(s.Clusters) > 0 {
			t.Errorf("%s: got %+v, want no import", name, s)
		}
	}
	w.assemble(
		w.SetAllow(map[string]v1alpha1.ClusterSetAllow{
			"east": {Namespaces: []string{"a", "b"}, Exports: new(int32(9))},
		}))
	if got := w.offers(); got != drains {
		t.Errorf("more is allowed: %s, want %s", got, drains)
	}
	w.export("east", 1, "a/1", "a/3")
	if got := w.offers(); got != "a/1.east 1; a/2.east 1 Ready=False Draining; a/3.east 1" {
		t.Errorf("exported again: %s, want %q", got, "a/1.east 1; a/2.east 1 Ready=False Draining; a/3.east 1")
	}
	// After a restart imports drain, too, because their records were saved.
	records := slices.DeleteFunc(w.registry.Records(), func(r registry.Record) bool {
		return r.Pool != (objectid.Pool{}) && !w.Imports(r.RecordID)
	})
	again := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {Namespaces: []string{"a", "b"}}})
	again.assemble(again.registry.Restore(records))
	want :=
		"a/1.east 1 Ready=Unknown Unreachable; a/2.east 1 Ready=False Draining; a/3.east 1 Ready=Unknown Unreachable"
	if got := again.offers(); got != want {
		t.Errorf("restored: %s, want %s", got, want)
	}
}

// Exports beyond a member's limit cause one finding, however many there are. They do not increase
// the work for an update of another export.
func TestImports_ExportsBeyondWhatAMemberIsAllowedCostNothing(t *testing.T) {
	two := int32(2)
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {Exports: &two}, "west": {}})
	w.export("east", 1, "a/1", "a/2", "a/3", "a/4")
	w.export("west", 1, "a/4")
	pool := func(name string) objectid.Pool { return objectid.Pool{Namespace: "a", Name: name} }
	if n := w.Beyond("east"); n != 2 || w.Beyond("west") != 0 {
		t.Errorf("%d exports of east are beyond what it is allowed, want 2", n)
	}
	if !w.NoneAllowed(pool("3")) || w.NoneAllowed(pool("2")) || w.NoneAllowed(pool("4")) ||
		w.NoneAllowed(pool("none")) {
		t.Error("only a/3 has no exporter that is allowed")
	}
	w.sequence++
	stamp := registry.Stamp{Epoch: 1, Sequence: w.sequence}
	changed, _ := w.registry.Apply(registry.Update{Member: "east", UID: "east", Stamp: stamp,
		Exports: []registry.Export{
			{
				Pool: pool("5"), Stamp: stamp, Entry: inferenceapi.ImportedCluster{
					RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
				},
			},
		}})
	if got := w.assemble(changed); got != "a/5 of east: NotAllowed" {
		t.Errorf(`one more export has these assembled: %s, want "a/5 of east: NotAllowed"`, got)
	}
	if n := w.Beyond("east"); n != 3 {
		t.Errorf("%d exports of east are beyond what it is allowed, want 3", n)
	}
}

func TestImports_ExportThatCannotBeTakenKeepsWhatIsKnown(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}})
	w.export("east", 1, "a/1")
	changed, rejected := w.registry.Apply(registry.Update{Member: "east", UID: "east",
		Stamp: registry.Stamp{Epoch: 1, Sequence: 9},
		Unread: map[objectid.Pool]string{{Namespace: "a", Name: "1"}: "too large",
			{Namespace: "a", Name: "2"}: "too large"}})
	if got := w.assemble(changed); got != "a/1 of east: NotSupported; a/2 of east: NotSupported" || len(rejected) > 0 ||
		w.offers() != "a/1.east 1" {
		t.Errorf(`placed %s, offers %s, %v, want %q, none, "a/1.east 1"`,
			got, w.offers(), rejected, "a/1 of east: NotSupported; a/2 of east: NotSupported")
	}
	if c := w.registry.Count("east"); c.Unread != 2 || c.Exports != 2 {
		t.Errorf("%+v, want Unread 2 and Exports 2", c)
	}
	w.sequence = 10
	if got := w.export("east", 1, "a/1", "a/2"); got != "a/1 of east: ; a/2 of east: " ||
		w.registry.Count("east").Unread != 0 {
		t.Errorf(`placed %s, %+v, want "a/1 of east: ; a/2 of east: " and Unread 0`, got, w.registry.Count("east"))
	}
}

// If a user or another controller wrote the import's entry of a cluster, the entry stays, and the
// exporter gets the reason Conflict. Requests to the import are still routed.
func TestImports_EntryOfAnotherIsAConflict(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}, "west": {}})
	written := &inferenceapi.InferencePoolImport{}
	written.Namespace, written.Name = "ns", "chat"
	put := func(clusters ...inferenceapi.ImportedCluster) {
		t.Helper()
		written := deepcopy.Of(written)
		written.Status.Clusters = clusters
		if _, err := w.store.Apply(store.InferencePoolImports.Put(written)); err != nil {
			t.Fatal(err)
		}
	}
	put(inferenceapi.ImportedCluster{Name: "east", RoutingMode: inferenceapi.ParentMode},
		inferenceapi.ImportedCluster{Name: "mars", RoutingMode: inferenceapi.ParentMode})
	if got := w.export("east", 1, "ns/chat", "ns/code"); got != "ns/chat of east: Conflict; ns/code of east: " {
		t.Errorf("placed: %s, want %q", got, "ns/chat of east: Conflict; ns/code of east: ")
	}
	if got := w.export("west", 1, "ns/chat"); got != "ns/chat of east: Conflict; ns/chat of west: " {
		t.Errorf("placed: %s, want %q", got, "ns/chat of east: Conflict; ns/chat of west: ")
	}
	if got := w.offers(); got != "ns/chat.east 1; ns/chat.west 1; ns/code.east 1" {
		t.Errorf("offers: %s, want %q", got, "ns/chat.east 1; ns/chat.west 1; ns/code.east 1")
	}
	chat := objectid.Pool{Namespace: "ns", Name: "chat"}
	if s, imported := w.Status(chat, 1); !imported || len(s.Clusters) != 2 || s.Clusters[0].Weight != nil {
		t.Errorf("got %+v, want 2 clusters without weights", s)
	}
	put(inferenceapi.ImportedCluster{Name: "mars", RoutingMode: inferenceapi.ParentMode})
	if got := w.assemble([]objectid.Pool{chat}); got != "ns/chat of east: ; ns/chat of west: " {
		t.Errorf(`placed: %s, want "ns/chat of east: ; ns/chat of west: "`, got)
	}
}

// A cluster whose picker fails keeps its Offer, and the status has the reason.
func TestImports_PickerThatFailsKeepsItsOffer(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}})
	chat := objectid.Pool{Namespace: "ns", Name: "chat"}
	if got := w.SetPickerDown(chat, "east", "probe", "connection refused"); got != nil {
		t.Errorf("a pool that no member exports: %v", got)
	}
	w.export("east", 1, "ns/chat")
	const down = "ns/chat.east 1 Ready=Unknown PickerDown"
	if got := w.offers(); got != down {
		t.Errorf("offers: %s, want %s", got, down)
	}
	if s, _ := w.Status(chat, 1); s.Clusters[0].Conditions[1].Message != "its picker fails: connection refused" {
		t.Errorf("got %+v, want its picker fails: connection refused", s.Clusters[0].Conditions)
	}
	if got := w.SetPickerDown(chat, "east", "relay", "late"); got != nil {
		t.Errorf("it is down already: %v", got)
	}
	w.assemble(w.SetPickerDown(chat, "east", "probe", ""))
	if got := w.offers(); got != down {
		t.Errorf("relayed picks fail: %s, want %s", got, down)
	}
	w.assemble(w.SetPickerDown(chat, "east", "relay", ""))
	if got := w.offers(); got != "ns/chat.east 1" {
		t.Errorf(`offers: %s, want "ns/chat.east 1"`, got)
	}
}

// An export that translation cannot use stays, and the exporter gets the reason.
func TestImports_ClusterThatTranslationCannotUseIsReportedToItsExporter(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}})
	chat := objectid.Pool{Namespace: "ns", Name: "chat"}
	not := map[string]imports.Unusable{
		"east": {Reason: imports.NotAllowedReason, Message: "none of its model servers is allowed"},
	}
	if got := w.SetUnusable(chat, not); got != nil {
		t.Errorf("a pool that no member exports: %v", got)
	}
	if got := w.export("east", 1, "ns/chat", "ns/code"); got != "ns/chat of east: NotAllowed; ns/code of east: " {
		t.Errorf("placed: %s, want %q", got, "ns/chat of east: NotAllowed; ns/code of east: ")
	}
	if s, imported := w.Status(chat, 1); w.offers() != "ns/chat.east 1; ns/code.east 1" || !imported ||
		s.Clusters[0].Weight != nil {
		t.Errorf("got offers: %s; status: %+v, want ns/chat.east 1; ns/code.east 1, imported, without a weight",
			w.offers(), s)
	}
	if got := w.assemble(w.SetUnusable(chat, nil)); got != "ns/chat of east: " {
		t.Errorf(`placed: %s, want "ns/chat of east: "`, got)
	}
}

func TestImports_OwnPoolIsAnEntryOfItsImport(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}})
	chat := objectid.Pool{Namespace: "ns", Name: "chat"}
	three := int32(3)
	w.assemble(w.SetLocal("here", map[objectid.Pool]*int32{chat: &three, {Namespace: "ns", Name: "alone"}: nil}))
	if got := w.offers(); got != "ns/alone.here 0; ns/chat.here 0" {
		t.Errorf("imports without other clusters: got %s, want ns/alone.here 0; ns/chat.here 0", got)
	}
	w.export("east", 1, "ns/chat")
	if got := w.offers(); got != "ns/alone.here 0; ns/chat.east 1; ns/chat.here 0" {
		t.Errorf("offers: %s, want %q", got, "ns/alone.here 0; ns/chat.east 1; ns/chat.here 0")
	}
	if o, _ := store.Offers.Get(w.store.View(), "ns/chat.here"); !o.Local || *o.Cluster.Weight != 3 {
		t.Errorf("got %+v, want a local one of weight 3", o)
	}
	if s, imported := w.Status(chat, 1); !imported || len(s.Clusters) != 2 || s.Clusters[1].Name != "here" {
		t.Errorf("got %+v, want 2 clusters, the second here", s)
	}
	w.assemble(w.SetLocal("here", nil))
	if got := w.offers(); got != "ns/chat.east 1" {
		t.Errorf(`offers: %s, want "ns/chat.east 1"`, got)
	}
}

// 100 members export 100 pools each. One endpoint of one pool changes.
func BenchmarkImports_OneOfManyExportsChanges(b *testing.B) {
	for _, pools := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d pools a member", pools), func(b *testing.B) {
			members := max(pools, 1)
			r, s := registry.New(registry.Config{}), store.New()
			i := imports.New(imports.Config{Registry: r, Store: s})
			allow := map[string]v1alpha1.ClusterSetAllow{}
			for m := range members {
				allow[fmt.Sprint("m", m)] = v1alpha1.ClusterSetAllow{}
			}
			r.SetMembers(slices.Collect(maps.Keys(allow)))
			i.SetAllow(allow)
			entry := func(n int) inferenceapi.ImportedCluster {
				e := inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000}
				for k := range 10 {
					e.Endpoints = append(e.Endpoints,
						inferenceapi.ImportedEndpoint{Address: fmt.Sprintf("10.0.%d.%d", n%250, k)})
				}
				return e
			}
			for m := range members {
				u := registry.Update{Member: fmt.Sprint("m", m), UID: "u", Stamp: registry.Stamp{Epoch: 1, Sequence: 1},
					Snapshot: true}
				for p := range pools {
					u.Exports = append(u.Exports, registry.Export{
						Pool: objectid.Pool{Namespace: "ns", Name: fmt.Sprintf("p-%d-%d", m, p)}, Stamp: u.Stamp,
						Entry: entry(0),
					})
				}
				changed, _ := r.Apply(u)
				if _, err := i.Assemble(changed); err != nil {
					b.Fatal(err)
				}
			}
			n := uint64(1)
			for b.Loop() {
				n++
				u := registry.Update{Member: "m0", UID: "u", Stamp: registry.Stamp{Epoch: 1, Sequence: n}}
				u.Exports = []registry.Export{
					{Pool: objectid.Pool{Namespace: "ns", Name: "p-0-0"}, Stamp: u.Stamp, Entry: entry(int(n))},
				}
				changed, _ := r.Apply(u)
				if _, err := i.Assemble(changed); err != nil {
					b.Fatal(err)
				}
				r.TakeUnsaved()
			}
		})
	}
}

// No export of a member is imported if the ClusterSet gives the member no permission. Other members
// are not affected.
func TestImports_MemberExportsOnlyWhatIsNamed(t *testing.T) {
	w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}, "west": {}})
	w.assemble(
		w.SetAllow(map[string]v1alpha1.ClusterSetAllow{
			"east": {Addresses: []string{"0.0.0.0/0"}}, "west": {Pools: []string{"ns/chat"}},
		}))
	w.export("west", 1, "ns/chat", "ns/code")
	if got := w.export("east", 1, "ns/chat"); got != "ns/chat of east: NotAllowed; ns/chat of west: " {
		t.Errorf("placed: %s, want %q", got, "ns/chat of east: NotAllowed; ns/chat of west: ")
	}
	if got := w.offers(); got != "ns/chat.west 1" {
		t.Errorf(`offers: %s, want "ns/chat.west 1"`, got)
	}
	chat, code := objectid.Pool{Namespace: "ns", Name: "chat"}, objectid.Pool{Namespace: "ns", Name: "code"}
	if first, n := w.Unnamed("east", 8); n != 1 || first[0] != chat {
		t.Errorf("%d exports of east are not named: %v, want 1, ns/chat", n, first)
	}
	if !w.NoneAllowed(code) || w.NoneAllowed(chat) {
		t.Error("only ns/code has no exporter that is allowed")
	}
	w.assemble(
		w.SetAllow(map[string]v1alpha1.ClusterSetAllow{
			"east": {Namespaces: []string{"ns"}, Cleartext: true}, "west": {Pools: []string{"ns/chat"}},
		}))
	if got := w.offers(); got != "ns/chat.east 1; ns/chat.west 1" {
		t.Errorf(`two exporters, each named: %s, want "ns/chat.east 1; ns/chat.west 1"`, got)
	}
	east, _ := store.Offers.Get(w.store.View(), "ns/chat.east")
	west, _ := store.Offers.Get(w.store.View(), "ns/chat.west")
	if !east.Cleartext || west.Cleartext {
		t.Errorf("cleartext: east %t, west %t, want true, false", east.Cleartext, west.Cleartext)
	}
}

// If an export gets an invalid weight, its previous version stays. Without a previous version, it
// is not imported.
func TestImports_WeightOutOfRangeIsNotTaken(t *testing.T) {
	for _, weight := range []int32{-1, -2147483648, 1_000_001, 2147483647} {
		w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}})
		publish := func(sequence uint64, weight int32, pools ...string) string {
			at := registry.Stamp{Epoch: 1, Sequence: sequence}
			u := registry.Update{Member: "east", UID: "east", Stamp: at, Snapshot: true}
			for _, name := range pools {
				u.Exports = append(u.Exports, registry.Export{
					Pool: objectid.Pool{Namespace: "ns", Name: name}, Stamp: at,
					Entry: inferenceapi.ImportedCluster{
						RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000, Weight: &weight,
					},
				})
			}
			changed, _ := w.registry.Apply(u)
			return w.assemble(changed)
		}
		publish(1, 1_000_000, "chat")
		if got := publish(2, weight, "chat", "code"); got !=
			"ns/chat of east: NotSupported; ns/code of east: NotSupported" {
			t.Errorf("weight %d: placed %s, want %q",
				weight, got, "ns/chat of east: NotSupported; ns/code of east: NotSupported")
		}
		all := store.Offers.All(w.store.View())
		if len(all) != 1 || *all[0].Cluster.Weight != 1_000_000 {
			t.Errorf("weight %d: got %+v, want one offer of weight 1000000", weight, all)
		}
		records := w.registry.Records()
		for i := range records {
			records[i].Entry.Weight = &weight // an earlier release may have stored such a weight
		}
		again := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}})
		again.assemble(again.registry.Restore(records))
		if got := again.offers(); got != "" {
			t.Errorf("weight %d, restored: got %s, want no offer", weight, got)
		}
	}
}
