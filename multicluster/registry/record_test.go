package registry

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

func entryAt(address string) inferenceapi.ImportedCluster {
	return inferenceapi.ImportedCluster{RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		Endpoints: []inferenceapi.ImportedEndpoint{{Address: address}}}
}

// problemOf applies an update. It returns the problem of the first Rejection; "": there is no
// Rejection.
func problemOf(r *Registry, u Update) string {
	_, rejected := r.Apply(u)
	if len(rejected) > 0 {
		return rejected[0].Problem
	}
	return ""
}

type savedRecords map[RecordID]Record

// take saves a registry's unsaved records, and returns the number of changed records.
func (saved savedRecords) take(r *Registry) int {
	changed, gone := r.TakeUnsaved()
	for _, rec := range changed {
		saved[rec.RecordID] = rec
	}
	for _, id := range gone {
		delete(saved, id)
	}
	return len(changed)
}

func TestRecord_RestartKeepsExportsAndTakesNothingOlder(t *testing.T) {
	r := New(Config{})
	r.SetMembers([]string{"east", "west"})
	if c, g := r.TakeUnsaved(); len(c)+len(g) > 0 {
		t.Errorf("without an update: got %v, %v, want nothing to save", c, g)
	}
	a, b := objectid.Pool{Namespace: "ns", Name: "a"}, objectid.Pool{Namespace: "ns", Name: "b"}
	at := func(epoch, sequence uint64) Stamp { return Stamp{epoch, sequence} }
	if p := problemOf(r,
		Update{Member: "east", UID: "1", Stamp: at(2, 5), Snapshot: true, Bundle: []byte("PEM"),
			Exports: []Export{{Pool: a, Stamp: at(2, 4), Entry: entryAt("10.0.0.1")},
				{Pool: b, Stamp: at(2, 5), Entry: entryAt("10.0.0.2")}}}); p != "" {
		t.Fatalf("got problem %q, want none", p)
	}
	saved := savedRecords{}
	save := func() int { return saved.take(r) }
	if n := save(); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
	if p := problemOf(r,
		Update{Member: "east", UID: "1", Stamp: at(2, 6), Bundle: []byte("PEM"), Withdrawn: []objectid.Pool{b}}); p !=
		"" {
		t.Fatalf("got problem %q, want none", p)
	}
	if n := save(); n != 2 { // the member's record and b's
		t.Errorf("%d records, want 2", n)
	}
	problemOf(r, Update{Member: "east", UID: "1", Stamp: at(2, 6), Bundle: []byte("PEM")})
	if n := save(); n != 0 {
		t.Errorf("a renewal changes %d records, want 0", n)
	}
	var list []Record
	for _, rec := range saved {
		list = append(list, rec)
	}
	slices.SortFunc(list, func(a, b Record) int { return a.Compare(b.RecordID) })
	if diff := cmp.Diff(r.Records(), list); diff != "" {
		t.Errorf("want the saved records (-registry +saved):\n%s", diff)
	}

	next := New(Config{})
	next.SetMembers([]string{"east"})
	another := list[1]
	another.UID, another.Pool.Name = "0", "another"
	other := list[0]
	other.Cluster = "removed"
	if got := next.Restore(append(slices.Clone(list), another, other)); !slices.Equal(got, []objectid.Pool{a, b}) {
		t.Errorf("to assemble: %v, want %v", got, []objectid.Pool{a, b})
	}
	if diff := cmp.Diff(list, next.Records()); diff != "" {
		t.Errorf("want the restored records (-saved +registry):\n%s", diff)
	}
	if m, _ := next.Member("east"); m.State != Unreachable || m.Known != at(2, 6) {
		t.Errorf("got %+v, want Unreachable, known at 2.6", m)
	}
	if p := problemOf(next,
		Update{Member: "east", UID: "1", Stamp: at(2, 5), Snapshot: true,
			Exports: []Export{{Pool: b, Stamp: at(2, 5)}}}); p == "" {
		t.Error("an older update had an effect")
	}
	if p := problemOf(next,
		Update{Member: "east", UID: "1", Stamp: at(2, 7), Snapshot: true,
			Exports: []Export{{Pool: a, Stamp: at(2, 4), Entry: entryAt("10.0.0.1")}}}); p != "" {
		t.Errorf("got problem %q, want none", p)
	}
	if e := next.ExportsOf("east"); len(e) != 2 || e[0].Draining || !e[1].Draining {
		t.Errorf("got %+v, want 2 exports, the second draining", e)
	}
	if got := next.Restore(list); len(got) > 0 {
		t.Errorf("restored over an update: %v, want none", got)
	}
}
