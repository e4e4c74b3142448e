package registry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/registry"
)

func since(r *registry.Registry, member string, p objectid.Pool) int64 {
	for _, e := range r.ExportsOf(member) {
		if e.Pool == p {
			return e.Since()
		}
	}
	return -1
}

// imported records that this cluster imports exports of a member, and returns their Since.
func imported(r *registry.Registry, member string, pools ...objectid.Pool) int64 {
	var ids []registry.RecordID
	for _, p := range pools {
		ids = append(ids, registry.RecordID{Cluster: member, Pool: p})
	}
	return r.Imported(ids, nil)
}

// No update of a member changes the age of its export, so a member cannot take over a name's
// meaning.
func TestSince_IsWhenAnExportBeganToBeImported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := set()
		publish := func(member, uid string, sequence uint64, snapshot bool, exports ...registry.Export) {
			t.Helper()
			apply(t, r,
				registry.Update{Member: member, UID: uid, Stamp: stamp(1, sequence), Snapshot: snapshot,
					Exports: exports})
		}
		publish("east", "e", 1, true, export(chat, stamp(1, 1), "a"), export(code, stamp(1, 1), "a"))
		publish("west", "w", 1, true, export(chat, stamp(1, 1), "b"))
		if got := since(r, "east", chat); got != 0 || since(r, "west", chat) != 0 {
			t.Errorf("received, and not imported: got since %d, want 0 of both", got)
		}
		time.Sleep(time.Hour)
		first := imported(r, "east", chat, code)
		if first != time.Now().UnixMicro() || since(r, "east", chat) != first || since(r, "east", code) != first ||
			r.Newest() != first {
			t.Errorf("two that are imported at once: %d and %d, want %d", since(r, "east", chat),
				since(r, "east", code), first)
		}
		if later := imported(r, "west", chat); later <= first || since(r, "west", chat) != later {
			t.Errorf("imported later, at the same time of the clock: got %d, want it after %d", later, first)
		}
		time.Sleep(time.Hour)
		imported(r, "east", chat)
		publish("east", "e", 2, false, export(chat, stamp(1, 2), "c"))
		publish("east", "e", 3, true)
		publish("east", "e", 4, true, export(chat, stamp(1, 4), "d"))
		r.Apply(registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 5),
			Unread: map[objectid.Pool]string{chat: "too large"}})
		time.Sleep(time.Hour)
		publish("east", "rebuilt", 6, true, export(chat, stamp(1, 6), "e"))
		if got := since(r, "east", chat); got != first {
			t.Errorf("changed, withdrawn, exported again, unreadable and taken over: %d, want %d", got, first)
		}
		publish("east", "rebuilt", 7, true)
		time.Sleep(time.Hour)
		r.Expire()
		publish("east", "rebuilt", 8, true, export(chat, stamp(1, 8), "f"))
		if got := since(r, "east", chat); got != 0 {
			t.Errorf("exported anew once the earlier export was collected: %d, want 0", got)
		}
	})
}

// An export that is no longer imported loses its age.
func TestSince_EndsWithTheImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := set()
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 1), "a")}})
		first, id := imported(r, "east", chat), registry.RecordID{Cluster: "east", Pool: chat}
		r.TakeUnsaved()
		if r.Imported(nil, []registry.RecordID{id}); since(r, "east", chat) != 0 || r.Newest() != first {
			t.Errorf("not imported any more: got since %d, the newest %d, want 0 and %d", since(r, "east", chat),
				r.Newest(), first)
		}
		// One record is to be saved or dropped: dropped if the export has no routing mode.
		if changed, gone := r.TakeUnsaved(); len(changed)+len(gone) != 1 {
			t.Errorf("records: got %v to save, %v to drop, want 1 of both together", changed, gone)
		}
		if again := imported(r, "east", chat); again <= first || since(r, "east", chat) != again {
			t.Errorf("imported again: since %d, want %d, after %d", since(r, "east", chat), again, first)
		}
		r.Imported([]registry.RecordID{{Cluster: "east", Pool: code}}, nil) // the export of code does not exist
	})
}

// A name keeps its meaning after a restart, and has the same meaning in all processes of this
// cluster.
func TestSince_IsKeptAndAgreedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := set()
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 1), "a")}})
		imported(r, "east", chat)
		records := []registry.Record{
			{RecordID: registry.RecordID{Cluster: "east"}, UID: "e", Stamp: stamp(1, 1)},
			{RecordID: registry.RecordID{Cluster: "east", Pool: chat}, UID: "e", Stamp: stamp(1, 1),
				Since: since(r, "east", chat), Entry: export(chat, stamp(1, 1), "a").Entry},
		}
		again := set()
		again.Restore(records)
		if got := since(again, "east", chat); got != since(r, "east", chat) {
			t.Errorf("restored: %d, want %d", got, since(r, "east", chat))
		}
		time.Sleep(time.Second)
		other := set()
		apply(t, other,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 1), "a"), export(code, stamp(1, 1), "a")}})
		if changed := other.Agree(records); len(changed) > 0 || since(other, "east", chat) != 0 {
			t.Errorf("a record of an export that is not imported: got %v changed, since %d, want none, 0", changed,
				since(other, "east", chat))
		}
		imported(other, "east", chat, code)
		if changed := other.Agree(records); len(changed) != 1 || since(other, "east", chat) != since(r, "east", chat) {
			t.Errorf("%v changed, imported since %d, want %d", changed, since(other, "east", chat),
				since(r, "east", chat))
		}
		if changed := other.Agree([]registry.Record{{RecordID: registry.RecordID{Cluster: "east", Pool: code}}}); len(
			changed) > 0 {
			t.Errorf("a record of an earlier release changes %v, want none", changed)
		}
	})
}
