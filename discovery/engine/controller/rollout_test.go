package controller_test

import (
	"path"
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

const changed = "variables: {max-num-seqs: 16}\n"

// wants returns the numbers of the wanted processes, with * for the new version.
func (r *rig) wants() string {
	var out []string
	r.engines.mu.Lock()
	defer r.engines.mu.Unlock()
	for _, p := range r.engines.wanted {
		text := path.Base(p.Name)
		if strings.Contains(strings.Join(p.Command, " "), "--max-num-seqs 16") {
			text += "*"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func (r *rig) accepting(name string) (n int) {
	if m, ok := store.ModelServers.Get(r.world.View(), "default/"+name); ok {
		for _, s := range m.Spec.Servers {
			if !s.Draining {
				n++
			}
		}
	}
	return n
}

func TestRollout_ANewServerStartsBesideTheOldOneWhichEndsAfterItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		g := follow(r)
		r.deploy("qwen", sim)
		r.engines.set("default/qwen/0", running)
		synctest.Wait()
		g.begin("default/qwen")
		r.deploy("qwen", sim+changed)
		if got := r.wants(); got != "0 1*" || r.accepting("qwen") != 1 {
			t.Fatalf("%s with %d servers, want the new one beside the old one", got, r.accepting("qwen"))
		}
		r.engines.set("default/qwen/1", running)
		time.Sleep(time.Minute)
		if got := r.wants(); got != "0 1*" || r.accepting("qwen") != 1 || r.servers("qwen") != 2 {
			t.Errorf("%s with %d of %d servers, want the old one until its request ends", got, r.accepting("qwen"),
				r.servers("qwen"))
		}
		g.end("default/qwen")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := r.wants(); got != "1*" || r.accepting("qwen") != 1 {
			t.Errorf("%s with %d servers", got, r.accepting("qwen"))
		}
	})
}

func TestRollout_AFailingVersionStopsThereAndCanBeUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		follow(r)
		r.deploy("qwen", sim+"replicas: 2\n")
		r.engines.set("default/qwen/0", running)
		r.engines.set("default/qwen/1", running)
		synctest.Wait()
		r.deploy("qwen", sim+"replicas: 2\n"+changed)
		r.engines.set("default/qwen/2", func(s *processes.State) {
			s.Phase, s.PID, s.Reason = processes.Waiting, 0, "exit status 1"
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := r.wants(); got != "0 1 2*" || r.accepting("qwen") != 2 {
			t.Errorf("%s with %d servers, want both old ones", got, r.accepting("qwen"))
		}
		if got := r.conditions("qwen"); !strings.Contains(got, "Ready True Running") ||
			!strings.Contains(got, "server 2: exit status 1") {
			t.Error(got)
		}
		// An old server that ends starts again with the old version.
		r.engines.set("default/qwen/0", func(s *processes.State) { s.Phase, s.PID = processes.Waiting, 0 })
		synctest.Wait()
		if got := r.wants(); got != "0 1 2*" {
			t.Errorf("after an old one has ended: %s", got)
		}
		r.engines.set("default/qwen/0", func(s *processes.State) { s.Phase, s.PID = processes.Running, 1 })
		r.deploy("qwen", sim+"replicas: 2\n")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := r.wants(); got != "0 1" || r.accepting("qwen") != 2 {
			t.Errorf("after the change was undone: %s with %d servers", got, r.accepting("qwen"))
		}
	})
}

// After a rename, servers with the former name get no requests, because they reject the new name.
func TestRollout_ServersOfAnotherNameGetNoRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	renamed := strings.Replace(sim, "qwen", "other", 1)
	synctest.Test(t, func(t *testing.T) {
		r := start(t, file)
		g := follow(r)
		r.deploy("qwen", sim)
		r.engines.set("default/qwen/0", running)
		synctest.Wait()
		g.begin("default/qwen")
		r.apply(put(t, "qwen", renamed)...)
		if n := r.accepting("qwen"); n != 0 {
			t.Errorf("in the revision of the change: got %d servers that get requests, want 0", n)
		}
		synctest.Wait()
		if got := r.wants(); got != "0 1" {
			t.Fatalf("got processes %s, want 0 until its request ends, and 1", got)
		}
		resumed := make(chan error, 1)
		go func() { resumed <- r.Resume(t.Context(), target("default/qwen")) }()
		synctest.Wait()
		if len(resumed) > 0 {
			t.Error("a request for the new name does not wait for a server that has it")
		}
		r.engines.set("default/qwen/1", running)
		if err := <-resumed; err != nil || r.accepting("qwen") != 1 {
			t.Errorf("got %v with %d servers, want 1", err, r.accepting("qwen"))
		}
		g.end("default/qwen")
		time.Sleep(time.Minute)
		if got := r.wants(); got != "1" {
			t.Errorf("got processes %s, want 1 alone", got)
		}
	})
}

func TestRollout_WithoutASpareOneEndsAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		r.engines = f
		follow(r)
		defer r.begin(f)()
		var least atomic.Int64
		least.Store(2)
		f.works(t, time.Second, func(string) { least.Store(min(least.Load(), int64(r.accepting("qwen")))) })
		r.deploy("qwen", cuda("1")+"replicas: 2\n")
		time.Sleep(5 * time.Second)
		r.deploy("qwen", cuda("1")+"replicas: 2\nenv: [{name: NEW, value: '1'}]\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, p := range f.processes() {
			if !strings.Contains(strings.Join(p.Env, " "), "NEW=1") {
				t.Errorf("%s has the old version", p.Name)
			}
		}
		if len(f.processes()) != 2 || r.accepting("qwen") != 2 || least.Load() != 1 {
			t.Errorf("%s, %d servers, at least %d meanwhile", f.seen(), r.accepting("qwen"), least.Load())
		}
	})
}

func TestRollout_OneServerWithoutASpareWaitsForRecreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", func() ([]devices.Device, error) { return devices.Numbered(1), nil })
		g := follow(r)
		defer r.begin(f)()
		f.works(t, time.Second, func(string) {
			if g.busy("default/qwen") {
				t.Error("the server stops while it serves")
			}
		})
		const env = "env: [{name: NEW, value: '1'}]\n"
		r.deploy("qwen", cuda("1"))
		time.Sleep(5 * time.Second)
		g.begin("default/qwen")
		r.deploy("qwen", cuda("1")+env)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := r.conditions("qwen"); !strings.Contains(got, "Ready True Running") ||
			!strings.Contains(got, "Waiting: it needs 1 device, and 0 of 1 are free") || r.accepting("qwen") != 1 {
			t.Error(got)
		}
		r.deploy("qwen", cuda("1")+env+"strategy: Recreate\n")
		time.Sleep(time.Minute)
		resumed := make(chan error, 1)
		go func() { resumed <- r.Resume(t.Context(), target("default/qwen")) }()
		synctest.Wait()
		if r.accepting("qwen") != 0 || len(resumed) > 0 || f.seen() != "default/qwen/0 0" {
			t.Errorf("%d servers, %s; want the old one until its request ends", r.accepting("qwen"), f.seen())
		}
		g.end("default/qwen")
		if err := <-resumed; err != nil || r.accepting("qwen") != 1 {
			t.Errorf("%v with %d servers", err, r.accepting("qwen"))
		}
	})
}

func TestRollout_ARestartOfPenstockKeepsOldServers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	f := newFake()
	for round := range 2 {
		synctest.Test(t, func(t *testing.T) {
			f.changed = make(chan struct{})
			r := machine(t, file, two)
			follow(r)
			if round == 1 {
				r.deploy("qwen", cuda("1")+"replicas: 2\nenv: [{name: NEW, value: '1'}]\n")
			}
			defer r.begin(f)()
			if round == 0 {
				r.deploy("qwen", cuda("1")+"replicas: 2\n")
				f.set("default/qwen/0", running)
				f.set("default/qwen/1", running)
			}
			synctest.Wait()
			if n := r.accepting("qwen"); n < 1 || n < 2 && round == 0 {
				t.Errorf("round %d: %d servers get requests", round, n)
			}
			for _, p := range f.processes() {
				if round == 1 && !p.Keep {
					t.Errorf("%s starts while both servers have the old version", p.Name)
				}
			}
		})
	}
}
