package controller_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
)

func reserves(name, resources string) string {
	return strings.Replace(cuda("0, "+resources), "{name: qwen}", "{name: "+name+"}", 1)
}

// Without accelerators, main memory decides which models run, and no list command is executed.
func TestReservations_TheModelOfARequestGetsTheMemoryOfAnIdleOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var lists atomic.Int32
		r := machine(t, "", func() ([]devices.Device, error) { lists.Add(1); return nil, nil })
		follow(r)
		f.works(t, time.Second, func(string) {})
		defer r.begin(f)()
		r.deploy("a", reserves("a", "memory: 60Mi"))
		r.deploy("b", reserves("b", "memory: 60Mi"))
		r.deploy("free", reserves("free", "cpu: 500m"))
		time.Sleep(3 * time.Second)
		want := "Pending it needs 60 MiB of memory, and 40 of 100 are free: default/a/0 has 60"
		if got := r.conditions("b"); !strings.Contains(got, want) ||
			!strings.Contains(got, "spec.resources.memory: it") {
			t.Errorf("without room b reports %s, want %s", got, want)
		}
		if err := r.Resume(t.Context(), target("default/b")); err != nil {
			t.Fatal(err)
		}
		if got := f.seen(); got != "default/b/0 , default/free/0 " {
			t.Errorf("after the request %q runs, want b and free", got)
		}
		if got := r.conditions("a"); !strings.Contains(got, "Asleep ModelDeployment default/b needs its room") {
			t.Error(got)
		}
		r.deploy("b", reserves("b", "memory: 60Mi")+"keep: true\n")
		if err := r.Resume(t.Context(), target("default/a")); err == nil ||
			!strings.Contains(err.Error(), "default/b/0 has 60") {
			t.Errorf("a request for a, whose room is kept, ends with %v, want the holder", err)
		}
		time.Sleep(time.Hour)
		if n := lists.Load(); n > 0 {
			t.Errorf("devices were listed %d times, want none", n)
		}
	})
}

func TestReservations_MoreThanTheMachineHasIsFailed(t *testing.T) {
	for resources, want := range map[string]string{
		"memory: 101Mi": "Failed it needs 101 MiB of memory, and Penstock may use 100|" +
			"write 100Mi at most, or remove it",
		"memory: 104857601": "Failed it needs 101 MiB of memory, and Penstock may use 100|" +
			"spec.resources.memory:",
		"cpu: 6": "Failed it needs 6 cores, and Penstock may use 4|write 4 at most, or remove it|" +
			"spec.resources.cpu:",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r := machine(t, "", two)
			defer r.begin(f)()
			r.deploy("a", reserves("a", resources))
			for text := range strings.SplitSeq(want, "|") {
				if got := r.conditions("a"); !strings.Contains(got, text) || f.seen() != "" {
					t.Errorf("%s: %q runs: %s\nlacks %s", resources, f.seen(), got, text)
				}
			}
		})
	}
}

func TestReservations_AServerNeedsRoomOfEachKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		defer r.begin(f)()
		r.deploy("a", model("a", ""))
		r.deploy("b", strings.Replace(cuda("1, memory: 60Mi"), "qwen", "b", 1))
		r.deploy("c", reserves("c", "cpu: 3, memory: 60Mi"))
		r.deploy("d", reserves("d", "cpu: 2"))
		r.deploy("e", strings.Replace(cuda("1, cpu: 1"), "qwen", "e", 1))
		if got := f.seen(); got != "default/a/0 0, default/b/0 1, default/d/0 " {
			t.Errorf("%q runs, want a, b and d", got)
		}
		for name, want := range map[string]string{
			"c": "Pending it needs 3 cores, and 2 of 4 are free: default/d/0 has 2",
			"e": "Pending it needs 1 device, and 0 of 2 are free",
		} {
			if got := r.conditions(name); !strings.Contains(got, want) {
				t.Errorf("%s reports %s, want %s", name, got, want)
			}
		}
		r.apply(store.ModelDeployments.Delete("default/d"))
		f.end("default/d/0")
		synctest.Wait()
		want := "Pending it needs 60 MiB of memory, and 40 of 100 are free: default/b/0 has 60"
		if got := r.conditions("c"); !strings.Contains(got, want) {
			t.Errorf("with cores, c reports %s, want %s", got, want)
		}
	})
}

func TestReservations_ARestartKeepsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, state := newFake(), filepath.Join(t.TempDir(), "deployments.json")
		r := machine(t, state, two)
		stop := r.begin(f)
		r.deploy("qwen", reserves("qwen", "memory: 60Mi"))
		f.set("default/qwen/0", running)
		synctest.Wait()
		stop()
		before := f.processes()[0].Hash()
		r = machine(t, state, two)
		r.deploy("another", reserves("another", "memory: 60Mi"))
		r.deploy("qwen", reserves("qwen", "memory: 60Mi"))
		defer r.begin(f)()
		if all := f.processes(); len(all) != 1 || all[0].Hash() != before {
			t.Errorf("after a restart %v run, want the server from before", all)
		}
		if got := r.conditions("another"); !strings.Contains(got, "default/qwen/0 has 60") {
			t.Error(got)
		}
	})
}

func TestReservations_AChangeReplacesTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		follow(r)
		f.works(t, time.Second, func(string) {})
		defer r.begin(f)()
		r.deploy("qwen", reserves("qwen", "memory: 30Mi"))
		time.Sleep(3 * time.Second)
		r.deploy("qwen", reserves("qwen", "memory: 70Mi"))
		if got := f.seen(); got != "default/qwen/0 , default/qwen/1 " {
			t.Errorf("%q runs, want the new server beside the old one", got)
		}
		time.Sleep(30 * time.Second)
		if got := f.seen(); got != "default/qwen/1 " {
			t.Errorf("%q runs, want the new server", got)
		}
		r.deploy("qwen", reserves("qwen", "memory: 71Mi"))
		want := "Waiting: it needs 71 MiB of memory, and 30 of 100 are free: default/qwen/1 has 70"
		if got := r.conditions("qwen"); f.seen() != "default/qwen/1 " || !strings.Contains(got, want) {
			t.Errorf("without room for both %q runs: %s\nlacks %s", f.seen(), got, want)
		}
		r.deploy("qwen", reserves("qwen", "memory: 71Mi")+"strategy: Recreate\n")
		time.Sleep(30 * time.Second)
		if got := r.conditions("qwen"); f.seen() != "default/qwen/0 " || !strings.Contains(got, "True Running") {
			t.Errorf("with Recreate %q runs: %s", f.seen(), got)
		}
	})
}

func TestPlacement_SpreadGivesReplicasDifferentDevices(t *testing.T) {
	for placement, want := range map[string]string{
		"":                              "default/qwen/0 0, default/qwen/1 0",
		"placement: {strategy: Pack}":   "default/qwen/0 0, default/qwen/1 0",
		"placement: {strategy: Spread}": "default/qwen/0 0, default/qwen/1 1",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			r := machine(t, "", two)
			defer r.begin(f)()
			r.deploy("qwen", cuda("0.4")+"replicas: 2\n"+placement)
			if got := f.seen(); got != want {
				t.Errorf("%s: %s, want %s", placement, got, want)
			}
		})
	}
}

func TestReservations_AServerThatStartsAgainKeepsItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		defer r.begin(f)()
		r.deploy("qwen", reserves("qwen", "memory: 60Mi"))
		f.set("default/qwen/0", running)
		r.deploy("another", reserves("another", "memory: 60Mi"))
		f.set("default/qwen/0", func(s *processes.State) { s.Phase, s.PID = processes.Waiting, 0 })
		synctest.Wait()
		if got := f.seen(); got != "default/qwen/0 " {
			t.Errorf("%q runs, want qwen", got)
		}
	})
}
