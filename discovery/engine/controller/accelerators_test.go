package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// machine makes a Keeper on a machine with devices, 4 cores and 100 MiB of memory. list is called
// for each list command.
func machine(t *testing.T, stateFile string, list func() ([]devices.Device, error)) *rig {
	r := &rig{T: t, world: store.New()}
	r.Keeper = controller.New(controller.Config{Store: r.world, StateFile: stateFile, Program: "/bin/penstock",
		List:   func(context.Context, []string) ([]devices.Device, error) { return list() },
		Host:   devices.Host{Cores: 4000, Memory: 100},
		Report: r.report, Log: slog.New(slog.DiscardHandler)})
	engine := &v1alpha1.Engine{ObjectMeta: metav1.ObjectMeta{Name: "cuda"}}
	engine.Spec.Versions = []v1alpha1.EngineVersion{{Version: "v1", SupportedTasks: []string{"text-generation"},
		Devices:        &v1alpha1.EngineDevices{List: []string{"nvidia-smi"}, Variable: "CUDA_VISIBLE_DEVICES"},
		DeployTemplate: v1alpha1.DeployTemplate{Process: v1alpha1.ProcessTemplate{Program: "penstock"}}}}
	r.apply(store.Engines.Put(engine))
	return r
}

func (r *rig) begin(f *fake) (stop func()) {
	r.Helper()
	if err := r.Start(f); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Keeper.Run(ctx, f)
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

func two() ([]devices.Device, error) { return devices.Numbered(2), nil }

// seen returns "NAME DEVICES" of the wanted processes.
func (f *fake) seen() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, p := range f.wanted {
		for _, env := range p.Env {
			if value, ok := strings.CutPrefix(env, "CUDA_VISIBLE_DEVICES="); ok {
				out = append(out, p.Name+" "+value)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (f *fake) end(name string) {
	f.mu.Lock()
	delete(f.states, name)
	f.mu.Unlock()
	f.changed <- struct{}{}
}

func cuda(gpu string) string {
	return "engine: {name: cuda}\nmodel: {name: qwen}\ngatewayRefs: [{name: gw}]\nresources: {gpu: " + gpu + "}\n"
}

func newFake() *fake {
	return &fake{states: map[string]processes.State{}, changed: make(chan struct{})}
}

func TestDevices_ADeploymentWaitsUntilAnotherOnesProcessHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		defer r.begin(f)()
		r.deploy("a", strings.Replace(cuda("1"), "{name: qwen}", "{name: a}", 1))
		r.deploy("b", strings.Replace(cuda("1"), "{name: qwen}", "{name: b}", 1))
		r.deploy("c", strings.Replace(cuda("1"), "{name: qwen}", "{name: c}", 1))
		if got := f.seen(); got != "default/a/0 0, default/b/0 1" {
			t.Error(got)
		}
		want := "Ready False Pending it needs 1 device, and 0 of 2 are free: 0 is used by default/a/0"
		if got := r.conditions("c"); !strings.Contains(got, want) {
			t.Error(got)
		}
		r.apply(store.ModelDeployments.Delete("default/a"))
		if got := f.seen(); got != "default/b/0 1" {
			t.Errorf("while the process of a ends: %s", got)
		}
		f.end("default/a/0")
		synctest.Wait()
		if got := f.seen(); got != "default/b/0 1, default/c/0 0" {
			t.Error(got)
		}
	})
}

func TestDevices_ARunningServerKeepsItsOwnWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, state := newFake(), filepath.Join(t.TempDir(), "deployments.json")
		r := machine(t, state, two)
		stop := r.begin(f)
		r.deploy("qwen", cuda("1"))
		f.set("default/qwen/0", running)
		synctest.Wait()
		stop()
		before := f.seen()
		r = machine(t, state, func() ([]devices.Device, error) { return nil, errors.New("no driver") })
		r.deploy("qwen", cuda("1"))
		r.deploy("more", strings.Replace(cuda("1"), "{name: qwen}", "{name: more}", 1))
		defer r.begin(f)()
		if got := f.seen(); got != before || got != "default/qwen/0 0" {
			t.Errorf("%s, before %s", got, before)
		}
		want := "Ready False Failed the devices of this machine are not known: no driver"
		if got := r.conditions("more"); !strings.Contains(got, want) {
			t.Error(got)
		}
	})
}

func TestDevices_AProcessEndsBeforeItsSuccessorGetsOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := machine(t, "", two)
		defer r.begin(f)()
		r.deploy("qwen", cuda("1"))
		f.set("default/qwen/0", running)
		synctest.Wait()
		r.deploy("qwen", cuda("2")+"strategy: Recreate\n")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := f.seen(); got != "" || r.servers("qwen") != 0 {
			t.Errorf("%q is wanted, %d servers get requests", got, r.servers("qwen"))
		}
		f.end("default/qwen/0")
		synctest.Wait()
		if got := f.seen(); got != "default/qwen/0 0,1" {
			t.Error(got)
		}
	})
}

func TestDevices_OneThatIsGoneIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var gone atomic.Bool
		r := machine(t, "", func() ([]devices.Device, error) {
			all := devices.Numbered(2)
			if gone.Load() {
				all = all[:1]
			}
			return all, nil
		})
		defer r.begin(f)()
		r.deploy("qwen", cuda("2"))
		f.set("default/qwen/0", running)
		synctest.Wait()
		gone.Store(true)
		time.Sleep(time.Hour) // on synctest's clock; devices are listed again
		synctest.Wait()
		if got := r.conditions("qwen"); f.seen() != "default/qwen/0 0,1" ||
			!strings.Contains(got, "the device device-1 (device), which a server uses, is not there any more") {
			t.Errorf("%s\n%s", f.seen(), got)
		}
		f.set("default/qwen/0", func(s *processes.State) { s.Phase, s.PID = processes.Waiting, 0 })
		synctest.Wait()
		want := "the device device-1, which it used, is not there any more; it needs 2 devices, and this machine has 1"
		if got := fmt.Sprint(f.seen(), r.conditions("qwen")); !strings.Contains(got, want) {
			t.Error(got)
		}
	})
}
