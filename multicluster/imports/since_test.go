package imports_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/imports"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// since returns Offer.Since; -1 without an Offer.
func (w *world) since(name string) int64 {
	if o, ok := store.Offers.Get(w.store.View(), name); ok {
		return o.Since
	}
	return -1
}

// allow replaces the permissions of member east.
func (w *world) allow(a v1alpha1.ClusterSetAllow) {
	w.assemble(w.SetAllow(map[string]v1alpha1.ClusterSetAllow{"east": a}))
}

// publish makes east export ns/chat with a weight.
func (w *world) publish(weight int32) {
	w.t.Helper()
	w.sequence++
	at := registry.Stamp{Epoch: 1, Sequence: w.sequence}
	changed, rejected := w.registry.Apply(registry.Update{Member: "east", UID: "east", Stamp: at, Snapshot: true,
		Exports: []registry.Export{{
			Pool: objectid.Pool{Namespace: "ns", Name: "chat"}, Stamp: at,
			Entry: inferenceapi.ImportedCluster{RoutingMode: inferenceapi.ParentMode, Weight: &weight},
		}}})
	if len(rejected) > 0 {
		w.t.Fatal(rejected)
	}
	w.assemble(changed)
}

// The age of an export begins when it is first imported, even if the member announced it earlier.
// So a new import never changes the meaning of a name in use.
func TestImports_HiddenExportIsAsOldAsItsFirstOffer(t *testing.T) {
	const invalid = 2_000_000_000 // a weight that no export may have
	named := v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}}
	for _, c := range []struct {
		what         string
		hide, reveal func(w *world)
	}{
		{"not named", func(w *world) { w.allow(v1alpha1.ClusterSetAllow{}); w.publish(1) },
			func(w *world) { w.allow(named) }},
		{"over the number", func(w *world) {
			w.allow(v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}, Exports: new(int32(0))})
			w.publish(1)
		}, func(w *world) { w.allow(named) }},
		{"invalid", func(w *world) { w.publish(invalid) }, func(w *world) { w.publish(1) }},
		{"of no member", func(w *world) { w.assemble(w.SetAllow(nil)); w.publish(1) },
			func(w *world) { w.allow(named) }},
		{"offered, and then not named", func(w *world) { w.publish(1); w.allow(v1alpha1.ClusterSetAllow{}) },
			func(w *world) { w.allow(named) }},
		{"offered, withdrawn and collected", func(w *world) {
			w.publish(1)
			w.export("east", 0)
			time.Sleep(10 * time.Minute)
			w.assemble(w.registry.Expire())
		}, func(w *world) { w.publish(1) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": named})
				c.hide(w)
				if got := w.since("ns/chat.east"); got != -1 {
					t.Errorf("it is imported, since %d, want %d", got, -1)
				}
				time.Sleep(time.Hour)
				c.reveal(w)
				first := time.Now().UnixMicro()
				if got := w.since("ns/chat.east"); got != first {
					t.Errorf("it is an Offer since %d, want %d", got, first)
				}
				time.Sleep(time.Hour)
				w.publish(2)
				w.publish(invalid) // the previous version keeps its Offer
				w.allow(v1alpha1.ClusterSetAllow{Pools: []string{"ns/chat"}})
				if got := w.since("ns/chat.east"); got != first {
					t.Errorf("changed, it is an Offer since %d, want %d", got, first)
				}
			})
		})
	}
}

// An export whose namespace is missing has no age, because it is not imported.
func TestImports_ExportWithoutANamespaceHasNoAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, exists := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {}}), false
		w.Importer = imports.New(imports.Config{Registry: w.registry, Store: w.store,
			Namespace: func(string) bool { return exists }})
		w.allow(v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}})
		w.publish(1)
		time.Sleep(time.Hour)
		exists = true
		w.assemble([]objectid.Pool{{Namespace: "ns", Name: "chat"}})
		if got, want := w.since("ns/chat.east"), time.Now().UnixMicro(); got != want {
			t.Errorf("it is an Offer since %d, want %d", got, want)
		}
	})
}

// Records keep an Offer's age over a restart. An export that is not imported at the start has none.
func TestImports_AgeOfAnOfferOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := v1alpha1.ClusterSetAllow{Namespaces: []string{"ns"}}
		w := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": named})
		w.registry.TakeUnsaved()
		w.publish(1)
		first := w.since("ns/chat.east")
		records, _ := w.registry.TakeUnsaved()
		isChat := func(r registry.Record) bool { return r.Pool.Name == "chat" }
		if i := slices.IndexFunc(records, isChat); i < 0 || records[i].Since != first || first <= 0 {
			t.Fatalf("the records are %+v, want one since %d", records, first)
		}
		time.Sleep(time.Hour)
		again := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": named})
		again.sequence = w.sequence
		again.assemble(again.registry.Restore(records))
		again.publish(2)
		if got := again.since("ns/chat.east"); got != first {
			t.Errorf("after a restart it is an Offer since %d, want %d", got, first)
		}
		hidden := newWorld(t, map[string]v1alpha1.ClusterSetAllow{"east": {Namespaces: []string{"other"}}})
		hidden.assemble(hidden.registry.Restore(records))
		hidden.allow(named)
		if got, want := hidden.since("ns/chat.east"), time.Now().UnixMicro(); got != want {
			t.Errorf("hidden at the start, it is an Offer since %d, want %d", got, want)
		}
	})
}
