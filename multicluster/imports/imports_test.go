package imports_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// world is an importer with what it reads and writes.
type world struct {
	*imports.Importer
	t        *testing.T
	registry *registry.Registry
	store    *store.Store
	sequence uint64
}

func newWorld(t *testing.T, allow map[string]v1alpha1.ClusterSetAllow) *world {
	t.Helper()
	w := &world{t: t, registry: registry.New(registry.Config{}), store: store.New()}
	w.Importer = imports.New(imports.Config{Registry: w.registry, Store: w.store, Namespace: func(name string) bool { return name != "missing" }})
	sources := map[string]string{}
	for name := range allow {
		sources[name] = "peer"
	}
	w.registry.SetMembers(sources)
	if _, err := w.SetAllow(allow); err != nil {
		t.Fatal(err)
	}
	return w
}

// export has a member export pools, "namespace/name", of n endpoints each, and nothing else.
func (w *world) export(member string, n int, pools ...string) (placed string) {
	w.t.Helper()
	w.sequence++
	u := registry.Update{Member: member, UID: member, Stamp: registry.Stamp{Epoch: 1, Sequence: w.sequence}, Snapshot: true}
	for _, p := range pools {
		namespace, name, _ := strings.Cut(p, "/")
		e := registry.Export{Pool: registry.Pool{Namespace: namespace, Name: name}, Stamp: u.Stamp, Entry: inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode}}
		for i := range n {
			e.Entry.Endpoints = append(e.Entry.Endpoints, inferenceapi.ImportedEndpoint{Address: fmt.Sprint("10.0.0.", i)})
		}
		u.Exports = append(u.Exports, e)
	}
	changed, rejected := w.registry.Apply(u)
	if len(rejected) > 0 {
		w.t.Fatal(rejected)
	}
	return w.assemble(changed)
}

func (w *world) assemble(changed []registry.Pool) (placed string) {
	w.t.Helper()
	list, err := w.Assemble(changed)
	if err != nil {
		w.t.Fatal(err)
	}
	var parts []string
	for _, p := range list {
		parts = append(parts, fmt.Sprintf("%s/%s of %s: %s", p.Pool.Namespace, p.Pool.Name, p.Member, p.Reason))
	}
	return strings.Join(parts, "; ")
}

// offers describes what is in the store.
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

func TestImports_FollowWhatMembersExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {Addresses: []string{"192.0.2.0/24"}, PodCIDRs: []string{"10.0.0.0/8"}}, "west": {}})
		if got := w.export("east", 2, "ns/chat"); got != "ns/chat of east: " {
			t.Errorf("placed: %s", got)
		}
		w.export("west", 1, "ns/chat")
		if got := w.offers(); got != "ns/chat.east 2; ns/chat.west 1" {
			t.Errorf("offers: %s", got)
		}
		if o, _ := store.Offers.Get(w.store.View(), "ns/chat.east"); o.Allowed[0] != "192.0.2.0/24" || o.Pods[0] != "10.0.0.0/8" || o.Cluster.Name != "east" || o.Import != "chat" {
			t.Errorf("%+v", o)
		}
		w.export("east", 0)
		if got := w.offers(); got != "ns/chat.east 2 Ready=False Draining; ns/chat.west 1" {
			t.Errorf("withdrawn: %s", got)
		}
		time.Sleep(10 * time.Minute)
		w.assemble(w.registry.Expire())
		if got := w.offers(); got != "ns/chat.west 1 Ready=Unknown Stale" {
			t.Errorf("collected: %s", got)
		}
		w.assemble(w.registry.Connected("west", false))
		if got := w.offers(); got != "ns/chat.west 1 Ready=Unknown Unreachable" {
			t.Errorf("disconnected: %s", got)
		}
		w.assemble(w.registry.SetMembers(nil))
		if _, err := w.SetAllow(nil); err != nil || w.offers() != "ns/chat.west 1 Ready=False Draining" {
			t.Errorf("no member any more: %v, %s", err, w.offers())
		}
	})
}

func TestImports_MemberStaysWithinWhatItIsAllowed(t *testing.T) {
	two, five := int32(2), int32(5)
	for _, c := range []struct {
		allow          v1alpha1.ClusterSetAllow
		placed, offers string
	}{
		{v1alpha1.ClusterSetAllow{}, "a/1 of east: ; a/2 of east: ; b/1 of east: ; missing/1 of east: NamespaceNotFound", "a/1.east 3; a/2.east 3; b/1.east 3"},
		{v1alpha1.ClusterSetAllow{Namespaces: []string{"b"}}, "a/1 of east: NotAllowed; a/2 of east: NotAllowed; b/1 of east: ; missing/1 of east: NotAllowed", "b/1.east 3"},
		{v1alpha1.ClusterSetAllow{Exports: &two}, "a/1 of east: ; a/2 of east: ; b/1 of east: NotAllowed; missing/1 of east: NamespaceNotFound", "a/1.east 3; a/2.east 3"},
		{v1alpha1.ClusterSetAllow{Endpoints: &five}, "a/1 of east: ; a/2 of east: ; b/1 of east: ; missing/1 of east: NamespaceNotFound", "a/1.east 3; a/2.east 2; b/1.east 0"},
	} {
		w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": c.allow})
		if got := w.export("east", 3, "a/1", "a/2", "b/1", "missing/1"); got != c.placed {
			t.Errorf("%+v: placed %s", c.allow, got)
		}
		if got := w.offers(); got != c.offers {
			t.Errorf("%+v: offers %s, want %s", c.allow, got, c.offers)
		}
	}
}
