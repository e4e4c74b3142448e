package registry_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

var chat, code = objectid.Pool{Namespace: "ns", Name: "chat"}, objectid.Pool{Namespace: "ns", Name: "code"}

func stamp(epoch, sequence uint64) registry.Stamp {
	return registry.Stamp{Epoch: epoch, Sequence: sequence}
}

func export(p objectid.Pool, at registry.Stamp, address string) registry.Export {
	return registry.Export{Pool: p, Stamp: at, Entry: inferenceapi.ImportedCluster{
		RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		EndpointPicker: &inferenceapi.EndpointPickerImport{
			Service: []inferenceapi.ServiceImport{{Addresses: []string{address}}},
		},
	}}
}

// set returns a registry with the members east and west.
func set() *registry.Registry {
	r := registry.New(registry.Config{})
	r.SetMembers([]string{"east", "west"})
	return r
}

// apply applies an update. A rejection fails the test.
func apply(t *testing.T, r *registry.Registry, u registry.Update) []objectid.Pool {
	t.Helper()
	changed, rejected := r.Apply(u)
	if len(rejected) > 0 {
		t.Fatalf("rejected: %v, want none", rejected)
	}
	return changed
}

// exports describes members' exports of a pool's name.
func exports(r *registry.Registry, p objectid.Pool) string {
	var out []string
	for _, e := range r.Exports(nil, p) {
		text := e.Cluster + "=" + e.Entry.EndpointPicker.Service[0].Addresses[0]
		if e.Draining {
			text += ", draining"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestExport_WithdrawnDrainsAndIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := set()
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 1), "a"), export(code, stamp(1, 1), "a")}})
		apply(t, r,
			registry.Update{Member: "west", UID: "w", Stamp: stamp(1, 9), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 3), "b")}})
		if got := exports(r, chat); got != "east=a; west=b" {
			t.Errorf(`exports: %s, want "east=a; west=b"`, got)
		}
		changed := apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 2), Withdrawn: []objectid.Pool{chat}})
		if got := exports(r, chat); !slices.Equal(changed, []objectid.Pool{chat}) || got != "east=a, draining; west=b" {
			t.Errorf(`after the withdrawal %v have changed: %s, want %v and "east=a, draining; west=b"`,
				changed, got, []objectid.Pool{chat})
		}
		time.Sleep(10 * time.Minute)
		if wait, ok := r.Next(); !ok || wait != 0 {
			t.Errorf("next in %v, want 0", wait)
		}
		r.Expire()
		if got := exports(r, chat); got != "west=b" {
			t.Errorf(`after the drain time: %s, want "west=b"`, got)
		}
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 3),
				Exports: []registry.Export{export(chat, stamp(1, 3), "c")}})
		if got := exports(r, chat); got != "east=c; west=b" {
			t.Errorf(`exported again: %s, want "east=c; west=b"`, got)
		}
	})
}

func TestMember_SilenceWithdrawsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := set()
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 1), "a")}})
		state := func() registry.State {
			m, _ := r.Member("east")
			return m.State
		}
		time.Sleep(14 * time.Second)
		if wait, _ := r.Next(); wait != time.Second {
			t.Errorf("the lease runs for %v more, want %v", wait, time.Second)
		}
		time.Sleep(time.Second)
		if changed := r.Expire(); state() != registry.Stale || !slices.Equal(changed, []objectid.Pool{chat}) {
			t.Errorf("a member that is connected and silent is %s; changed: %v, want %s and %v",
				state(), changed, registry.Stale, []objectid.Pool{chat})
		}
		r.Connected("east", false)
		if state() != registry.Unreachable {
			t.Errorf("disconnected, it is %s, want %s", state(), registry.Unreachable)
		}
		time.Sleep(1000 * time.Hour)
		r.Expire()
		if got := exports(r, chat); got != "east=a" {
			t.Errorf(`its export: %q, want "east=a"`, got)
		}
		apply(t, r, registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1)})
		if state() != registry.Ready {
			t.Errorf("after an update that has nothing new it is %s, want %s", state(), registry.Ready)
		}
		if changed := r.SetMembers([]string{"west"}); !slices.Equal(changed, []objectid.Pool{chat}) ||
			exports(r, chat) != "east=a, draining" {
			t.Errorf(`removed from the set, its export is %q; changed: %v, want %v and "east=a, draining"`,
				exports(r, chat), changed, []objectid.Pool{chat})
		}
	})
}

func TestStamp_OlderUpdatesChangeNothing(t *testing.T) {
	r := set()
	apply(t, r,
		registry.Update{Member: "east", UID: "e", Stamp: stamp(2, 5), Snapshot: true,
			Exports: []registry.Export{export(chat, stamp(2, 4), "new")}})
	for what, u := range map[string]registry.Update{
		"a leader that was paused withdraws": {
			Member: "east", UID: "e", Stamp: stamp(1, 900), Withdrawn: []objectid.Pool{chat},
		},
		"a backup that was restored revives": {
			Member: "east", UID: "e", Stamp: stamp(2, 3), Snapshot: true,
			Exports: []registry.Export{export(code, stamp(2, 3), "old")},
		},
		"another cluster takes the name": {Member: "east", UID: "other", Stamp: stamp(9, 9), Snapshot: true},
		"a cluster that is no member exports": {
			Member: "south", UID: "s", Stamp: stamp(1, 1), Exports: []registry.Export{export(chat, stamp(1, 1), "x")},
		},
		"an old hub sends one change that is old": {
			Member: "east", UID: "e", Stamp: stamp(2, 4), Exports: []registry.Export{export(chat, stamp(2, 1), "old")},
		},
	} {
		changed, rejected := r.Apply(u)
		if len(changed) > 0 || len(rejected) != 1 || rejected[0].Member != u.Member || exports(r, chat) != "east=new" ||
			exports(r, code) != "" {
			t.Errorf("%s: changed %v, rejected %v, now %q and %q, want it rejected without a change", what, changed,
				rejected, exports(r, chat), exports(r, code))
		}
	}
}

func TestStamp_MemberThatLostItsEpochIsServedAgain(t *testing.T) {
	began := time.Now()
	lost := func(started time.Time) registry.Update {
		return registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 2), Started: started, Snapshot: true,
			Exports: []registry.Export{export(chat, stamp(1, 1), "again")}}
	}
	prepared := func(t *testing.T) *registry.Registry {
		r := set()
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(9, 5), Started: began, Snapshot: true,
				Exports: []registry.Export{
					export(chat, stamp(9, 4), "first"), export(code, stamp(9, 4), "first"),
				}})
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(9, 6), Started: began,
				Withdrawn: []objectid.Pool{chat}})
		return r
	}
	for what, c := range map[string]struct {
		started time.Time
		served  bool
	}{
		"it began later":                    {began.Add(time.Second), true},
		"it began an hour in the future":    {began.Add(2 * time.Hour), false},
		"a process that it replaced":        {began.Add(-time.Second), false},
		"one that does not state its start": {time.Time{}, false},
	} {
		r := prepared(t)
		_, rejected := r.Apply(lost(c.started))
		if served := len(rejected) == 0 && exports(r, chat) == "east=again" &&
			exports(r, code) == "east=first, draining"; served != c.served {
			t.Errorf("%s: %q and %q, rejected %v, want it served: %t", what, exports(r, chat), exports(r, code),
				rejected, c.served)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		r := prepared(t)
		time.Sleep(16 * time.Second)
		r.Expire()
		apply(t, r, lost(time.Time{}))
		if exports(r, chat) != "east=again" || exports(r, code) != "east=first, draining" {
			t.Errorf(`once its lease has expired: %q and %q, want "east=again" and "east=first, draining"`,
				exports(r, chat), exports(r, code))
		}
	})
	// A replaced process that continues is the only one of its member that can be reached.
	synctest.Test(t, func(t *testing.T) {
		began = time.Now()
		r := prepared(t)
		time.Sleep(16 * time.Second)
		r.Expire()
		kept := registry.New(registry.Config{})
		kept.SetMembers([]string{"east", "west"})
		kept.Restore(r.Records())
		time.Sleep(16 * time.Second)
		kept.Expire()
		for what, r := range map[string]*registry.Registry{"": r, "after a restart here": kept} {
			_, rejected := r.Apply(lost(began.Add(-time.Second)))
			if len(rejected) != 1 || strings.HasSuffix(exports(r, chat), "again") {
				t.Errorf("%s: got %q, want it rejected: a successor has withdrawn it", what, exports(r, chat))
			}
		}
		time.Sleep(time.Hour)
		// The member's clock was set back.
		if apply(t, r, lost(began.Add(-time.Second))); exports(r, chat) != "east=again" {
			t.Errorf(`after an hour: %q, want "east=again"`, exports(r, chat))
		}
	})
}

func TestMember_NameOfALostClusterCanBeTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := set()
		apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(7, 7), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(7, 7), "a"), export(code, stamp(7, 7), "a")}})
		time.Sleep(16 * time.Second)
		r.Expire()
		apply(t, r,
			registry.Update{Member: "east", UID: "rebuilt", Stamp: stamp(1, 1), Snapshot: true,
				Exports: []registry.Export{export(chat, stamp(1, 1), "b")}})
		if exports(r, chat) != "east=b" || exports(r, code) != "east=a, draining" {
			t.Errorf(`%q and %q, want "east=b" and "east=a, draining"`, exports(r, chat), exports(r, code))
		}
	})
}

// While the lease of the previous cluster runs, updates of the cluster that replaces it have no
// effect. After that, the first accepted update is a renewal without exports. It must cause a
// request for a snapshot, which has all exports.
func TestMember_ThatStartsAgainHasAllItsExports(t *testing.T) {
	for _, uid := range []string{"e", "rebuilt"} {
		synctest.Test(t, func(t *testing.T) {
			r := set()
			snapshot := func(uid string, at registry.Stamp, exports ...registry.Export) {
				apply(t, r, registry.Update{Member: "east", UID: uid, Stamp: at, Snapshot: true, Exports: exports})
			}
			snapshot("e", stamp(7, 7), export(code, stamp(7, 7), "a"))
			time.Sleep(16 * time.Second)
			r.Expire()
			apply(t, r, registry.Update{Member: "east", UID: uid, Stamp: stamp(1, 4)})
			snapshot(uid, stamp(1, 4), export(chat, stamp(1, 2), "b"), export(code, stamp(1, 2), "b"))
			if exports(r, chat) != "east=b" || exports(r, code) != "east=b" {
				t.Errorf(`%s: %q and %q, want "east=b" and "east=b"`, uid, exports(r, chat), exports(r, code))
			}
		})
	}
}

// A user removes a member, and adds it again while its exports drain. Before it is added again, the
// member loses its epoch.
func TestMember_ThatJoinsAgainWithALostEpochHasItsExports(t *testing.T) {
	r := set()
	east := registry.Update{Member: "east", UID: "1", Stamp: stamp(7, 2), Snapshot: true}
	east.Exports = []registry.Export{export(chat, stamp(7, 1), "10.0.0.1")}
	apply(t, r, east)
	r.SetMembers([]string{"west"})
	if got := exports(r, chat); got != "east=10.0.0.1, draining" {
		t.Fatalf("exports: got %q, want east=10.0.0.1, draining", got)
	}
	r.SetMembers([]string{"east", "west"})
	east.Stamp, east.Exports = stamp(1, 1), []registry.Export{export(chat, stamp(1, 1), "10.0.0.2")}
	apply(t, r, east)
	if got := exports(r, chat); got != "east=10.0.0.2" {
		t.Errorf("exports: got %q, want east=10.0.0.2", got)
	}
}

// A process on a restored disk has the same epoch as an earlier process. Its stamps may already
// exceed the stamps of the earlier process when it connects.
func TestMember_ThatRepeatsAnEpochHasItsExports(t *testing.T) {
	r, began := set(), time.Now()
	east := registry.Update{Member: "east", UID: "1", Stamp: stamp(2, 4), Snapshot: true,
		Started: began.Add(-time.Minute), Draining: true}
	east.Exports = []registry.Export{export(chat, stamp(2, 3), "10.0.0.1")}
	apply(t, r, east)
	east.Stamp, east.Started, east.Draining = stamp(2, 5), began, false
	east.Exports = []registry.Export{export(chat, stamp(2, 1), "10.0.0.2")}
	apply(t, r, east)
	if got := exports(r, chat); got != "east=10.0.0.2" {
		t.Errorf("exports: got %q, want east=10.0.0.2", got)
	}
}

// On a full disk, a process cannot save its epoch, so its successor has the same epoch. If the
// replaced process continues to send updates, they must have no effect.
func TestMember_ReplacedProcessWithTheEpochOfItsSuccessorChangesNothing(t *testing.T) {
	r, began := set(), time.Now()
	replaced := registry.Update{Member: "east", UID: "1", Stamp: stamp(2, 2), Snapshot: true,
		Started: began.Add(-time.Minute)}
	replaced.Exports = []registry.Export{export(chat, stamp(2, 2), "10.0.0.1")}
	apply(t, r, replaced)
	apply(t, r, registry.Update{Member: "east", UID: "1", Stamp: stamp(2, 2), Snapshot: true, Started: began})
	before := exports(r, chat)
	for _, sequence := range []uint64{2, 9} {
		replaced.Stamp = stamp(2, sequence)
		replaced.Exports = []registry.Export{export(chat, stamp(2, sequence), "10.0.0.1")}
		_, rejected := r.Apply(replaced)
		if got := exports(r, chat); got != before || len(rejected) != 1 ||
			!strings.Contains(rejected[0].Problem, "began before the known one") {
			t.Errorf("2.%d: got %q, rejected %v, want %q, and that it began before the known one", sequence, got,
				rejected, before)
		}
	}
}

func TestMember_ThatDrainsTakesNoNewRequest(t *testing.T) {
	r := set()
	first := registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Snapshot: true,
		Exports: []registry.Export{export(chat, stamp(1, 1), "a")}}
	apply(t, r, first)
	for i, draining := range []bool{true, false} {
		changed := apply(t, r,
			registry.Update{Member: "east", UID: "e", Stamp: stamp(1, uint64(2+i)), Draining: draining})
		if got := strings.HasSuffix(exports(r, chat), ", draining"); got != draining ||
			!slices.Equal(changed, []objectid.Pool{chat}) {
			t.Errorf("draining %v: got %s; changed: %v, want the same, and chat changed", draining, exports(r, chat),
				changed)
		}
	}
	if _, ok := r.Next(); !ok || len(r.InState(registry.Ready)) != 1 || len(r.InState(registry.Unreachable)) != 1 {
		t.Errorf("ready: %v, unreachable: %v, want 1 of each", r.InState(registry.Ready),
			r.InState(registry.Unreachable))
	}
}

func TestPlacement_NamesMembersWithoutTheImport(t *testing.T) {
	r := set()
	ws := registry.NewWatchSet()
	if list := r.Placements(ws, chat); len(list) != 0 {
		t.Fatalf("placements: %v, want none", list)
	}
	want := []registry.Placement{{Member: "east", Pool: chat},
		{Member: "west", Pool: chat, Reason: "NamespaceNotFound", Message: "namespace ns does not exist there"}}
	for _, p := range want {
		r.Place(registry.Reports{Member: p.Member, Placed: []registry.Placement{p}})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := ws.WatchCtx(ctx); err != nil {
		t.Errorf("the waiter: %v", err)
	}
	if diff := cmp.Diff(want, r.Placements(nil, chat)); diff != "" {
		t.Errorf("want these placements (-want +got):\n%s", diff)
	}
}

func TestPlacement_GoesWithTheReport(t *testing.T) {
	r := set()
	at := func(member string, p objectid.Pool) registry.Placement {
		return registry.Placement{Member: member, Pool: p}
	}
	has := func(want string) {
		t.Helper()
		var got []string
		for _, p := range []objectid.Pool{chat, code} {
			for _, pl := range r.Placements(nil, p) {
				got = append(got, pl.Member+" "+p.Name)
			}
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("placements: %s; want %s", got, want)
		}
	}
	for _, m := range []string{"east", "west", "south"} { // south is no member
		r.Place(registry.Reports{Member: m, Snapshot: true, Placed: []registry.Placement{at(m, chat), at(m, code)}})
	}
	has("east chat, west chat, east code, west code")
	r.Place(registry.Reports{Member: "east", Gone: []objectid.Pool{chat, {Namespace: "ns", Name: "none"}}})
	has("west chat, east code, west code")
	r.Place(registry.Reports{Member: "west", Snapshot: true, Placed: []registry.Placement{at("west", chat)}})
	has("west chat, east code")
	r.SetMembers([]string{"west"})
	has("west chat")
}

// A cluster changes its exports at random. Two sources deliver its updates late, and each begins
// with a snapshot. The registry must never revive an export that was withdrawn before the newest
// received update. At the end, it must have the cluster's exports.
func TestRegistry_SourcesInAnyOrderEndWithTheExportersPools(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := set()
		pools := []objectid.Pool{chat, code, {Namespace: "ns", Name: "embed"}}
		truth, stamped := map[objectid.Pool]string{}, map[objectid.Pool]registry.Stamp{}
		var history []registry.Update // one update for each step
		at := stamp(1, 0)
		snapshot := func() registry.Update {
			u := registry.Update{Member: "east", UID: "e", Stamp: at, Snapshot: true}
			for _, p := range pools {
				if address := truth[p]; address != "" {
					u.Exports = append(u.Exports, export(p, stamped[p], address))
				}
			}
			return u
		}
		var snapshots []registry.Update
		for range 20 {
			snapshots = append(snapshots, snapshot())
			if at.Sequence++; rng.IntN(6) == 0 {
				at = stamp(at.Epoch+1, 0)
			}
			u := registry.Update{Member: "east", UID: "e", Stamp: at}
			if p := pools[rng.IntN(len(pools))]; truth[p] != "" && rng.IntN(2) == 0 {
				truth[p] = ""
				u.Withdrawn = append(u.Withdrawn, p)
			} else {
				truth[p], stamped[p] = fmt.Sprint("v", at.Epoch, ".", at.Sequence), at
				u.Exports = append(u.Exports, export(p, at, truth[p]))
			}
			history = append(history, u)
		}
		snapshots = append(snapshots, snapshot())
		var sources [2][]registry.Update // the updates that each source has not delivered yet
		for i := range sources {
			from := rng.IntN(len(history))
			sources[i] = append([]registry.Update{snapshots[from]}, history[from:]...)
		}
		var newest registry.Stamp
		for len(sources[0])+len(sources[1]) > 0 {
			i := rng.IntN(2)
			if len(sources[i]) == 0 {
				continue
			}
			u := sources[i][0]
			sources[i] = sources[i][1:]
			if rng.IntN(5) == 0 && len(sources[i]) > 0 { // reconnects to an older or newer replica
				sources[i][0] = snapshots[len(history)-len(sources[i])+1]
			}
			r.Apply(u)
			if u.Stamp.Compare(newest) > 0 {
				newest = u.Stamp
			}
			if m, _ := r.Member("east"); m.Known != newest {
				t.Fatalf("seed %d: known up to %v, want %v", seed, m.Known, newest)
			}
		}
		for _, p := range pools {
			want := ""
			if truth[p] != "" {
				want = "east=" + truth[p]
			}
			got := exports(r, p)
			if strings.HasSuffix(got, ", draining") {
				got = ""
			}
			if got != want {
				t.Fatalf("seed %d: pool %s is %q, want %q", seed, p.Name, got, want)
			}
		}
	}
}

// On Kubernetes, the status of the ClusterSet has the start times of all members, and cannot hold a
// year before 0. So the registry ignores such a start time.
func TestRegistry_StartThatIsNoTimeIsNotKept(t *testing.T) {
	r := set()
	apply(t, r,
		registry.Update{Member: "east", UID: "e", Stamp: stamp(1, 1), Started: time.UnixMilli(-1 << 62),
			Snapshot: true})
	for _, rec := range r.Records() {
		if !rec.Started.IsZero() {
			t.Errorf("the start: got %v, want none", rec.Started)
		}
	}
}
