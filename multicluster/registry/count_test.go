package registry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// publishes applies an update with n more exports of the given size, and returns the rejection.
func publishes(r *registry.Registry, member string, sequence uint64, n, size int) string {
	stamp := registry.Stamp{Epoch: 1, Sequence: sequence}
	u := registry.Update{Member: member, UID: "uid-" + member, Stamp: stamp}
	for i := range n {
		pool := objectid.Pool{Namespace: "ns", Name: fmt.Sprintf("p%d-%d", sequence, i)}
		e := export(pool, stamp, "a")
		e.Size = size
		u.Exports = append(u.Exports, e)
	}
	_, rejected := r.Apply(u)
	if len(rejected) == 0 {
		return ""
	}
	return rejected[0].Problem
}

// An export without room in its member's share is requested again once there is room.
func TestRegistry_DeniedExportsAreAskedForAgain(t *testing.T) {
	now := time.Now()
	r := registry.New(registry.Config{Exports: 1, Now: func() time.Time { return now }}) // the smallest share
	r.SetMembers([]string{"east"})
	u := registry.Update{Member: "east", UID: "1", Stamp: registry.Stamp{Epoch: 1, Sequence: 1}, Snapshot: true}
	for i := range 401 {
		pool := objectid.Pool{Namespace: "ns", Name: fmt.Sprint("p", i)}
		u.Exports = append(u.Exports, export(pool, u.Stamp, "a"))
	}
	lacks := func(u registry.Update) bool {
		_, rejected := r.Apply(u)
		return len(rejected) > 0
	}
	renewal := registry.Update{Member: "east", UID: "1", Stamp: registry.Stamp{Epoch: 1, Sequence: 2}}
	if !lacks(u) || !lacks(renewal) {
		t.Error("an export for which there is no room is not reported")
	}
	renewal.Withdrawn = []objectid.Pool{u.Exports[0].Pool}
	lacks(renewal)
	now = now.Add(time.Hour) // one export has drained after an hour
	r.Expire()
	if renewal.Withdrawn = nil; lacks(renewal) {
		t.Error("there is room, and the member is not asked for the export")
	}
	if u.Exports, u.Stamp = u.Exports[1:], renewal.Stamp; lacks(u) || r.Count("east").Exports != 400 {
		t.Errorf("got %+v, want 400 exports, and none lacking", r.Count("east"))
	}
}

func TestRegistry_EachMemberHasAShareOfTheBudgets(t *testing.T) {
	set := func(r *registry.Registry, n int) {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprint("m", i))
		}
		r.SetMembers(members)
	}
	one, _ := registry.Share(40_000, 1)
	for n, want := range map[int][2]int{1: {10_000, 64 << 20}, 8: {5_000, 8 << 20}, 100: {400, 1 << 20},
		1000: {400, 1 << 20}} {
		if exports, bytes := registry.Share(40_000, n); exports != want[0] || bytes != want[1] {
			t.Errorf("of %d members each has %d exports and %d bytes, want %v", n, exports, bytes, want)
		}
	}
	t.Run("exports", func(t *testing.T) {
		r := registry.New(registry.Config{})
		set(r, 1)
		if got := publishes(r, "m0", 1, one+1, 10); !strings.Contains(got, "more than 10000 pools") {
			t.Errorf(`above the share of exports: %q, want a text with "more than 10000 pools"`, got)
		}
		set(r, 8)
		if got := r.Count("m0").Exports; got != one {
			t.Errorf("after more members have joined it has %d exports, want %d: nothing is taken back", got, one)
		}
		if got := publishes(r, "m1", 1, 5_000, 10); got != "" {
			t.Errorf("another member within its share: got %q, want no problem", got)
		}
		if got := publishes(r, "m1", 2, 1, 10); !strings.Contains(got, "more than 5000 pools") {
			t.Errorf(`another member above its share: %q, want a text with "more than 5000 pools"`, got)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		r := registry.New(registry.Config{})
		set(r, 64)
		if got := publishes(r, "m0", 1, 10, 100<<10); got != "" {
			t.Errorf("within the share: got %q, want no problem", got)
		}
		if got := publishes(r, "m0", 2, 10, 100<<10); !strings.Contains(got, "more than 1 MiB") {
			t.Errorf(`above the share of bytes: %q, want a text with "more than 1 MiB"`, got)
		}
		if got := publishes(r, "m1", 1, 10, 100<<10); got != "" {
			t.Errorf("another member within its share: got %q, want no problem", got)
		}
	})
}

// A large snapshot is applied in slices (Update.Partial). The exports that it withdraws are
// withdrawn with the last slice.
func TestRegistry_SlicesOfASnapshotAreOneSnapshot(t *testing.T) {
	r := registry.New(registry.Config{Exports: 1}) // the smallest share
	r.SetMembers([]string{"east"})
	publish := func(u registry.Update) bool {
		u.Member, u.UID = "east", "1"
		for i := range u.Exports {
			u.Exports[i].Stamp = registry.Stamp{Epoch: 1, Sequence: 1}
		}
		_, rejected := r.Apply(u)
		return len(rejected) == 0
	}
	check := func(when string, sequence uint64, exports int) {
		t.Helper()
		m, _ := r.Member("east")
		if n := r.Count("east").Exports; n != exports || m.Known.Sequence != sequence {
			t.Errorf("%s: got %d exports at %d, want %d at %d", when, n, m.Known.Sequence, exports, sequence)
		}
	}
	first, next := export(chat, stamp(1, 1), "a"), export(code, stamp(1, 1), "a")
	publish(registry.Update{Stamp: stamp(1, 2), Snapshot: true, Exports: []registry.Export{first}})
	at := stamp(1, 5)
	publish(registry.Update{Stamp: at, Snapshot: true, Partial: true, Exports: []registry.Export{next}})
	check("after the first slice", 2, 2)
	other := export(objectid.Pool{Namespace: "ns", Name: "other"}, at, "a")
	last := registry.Update{
		Stamp: at, Snapshot: true, Before: []objectid.Pool{code}, Exports: []registry.Export{other},
	}
	if !publish(last) {
		t.Error("the last slice is rejected")
	}
	check("after the last slice", 5, 2)
	var large []registry.Export
	for i := range 500 {
		large = append(large, export(objectid.Pool{Namespace: "ns", Name: fmt.Sprint("p", i)}, at, "a"))
	}
	if publish(registry.Update{Stamp: stamp(1, 6), Snapshot: true, Partial: true, Exports: large}) {
		t.Error("a slice is taken that has no room")
	}
	if publish(registry.Update{Stamp: stamp(1, 6), Snapshot: true, Before: []objectid.Pool{code}}) {
		t.Error("the last slice is taken, and there was no room for all of an earlier one")
	}
}
