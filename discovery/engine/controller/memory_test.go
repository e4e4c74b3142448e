package controller_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/memory/memorytest"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const gib = 1 << 30

func l40s() ([]devices.Device, error) {
	return []devices.Device{{Index: 0, UUID: "GPU-0", Name: "NVIDIA L4", Memory: 23034},
		{Index: 1, UUID: "GPU-1", Name: "NVIDIA L40S", Memory: 46080},
		{Index: 2, UUID: "GPU-2", Name: "NVIDIA L40S", Memory: 46080}}, nil
}

// memoryRig has two engines: limited uses a part of an accelerator's memory, and unlimited all of
// it.
func memoryRig(t *testing.T) (*rig, *fake) {
	r := machine(t, "", l40s)
	for _, name := range []string{"limited", "unlimited"} {
		e := &v1alpha1.Engine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		d := &v1alpha1.EngineDevices{List: []string{"nvidia-smi"}, Variable: "CUDA_VISIBLE_DEVICES",
			Memory: &v1alpha1.EngineMemory{ContextArguments: []string{"ctx", "c"}, UnknownWith: []string{"offload"}}}
		if name == "limited" {
			d.MemoryArgument, d.Memory.Utilization = "part", "0.9"
		}
		e.Spec.Versions = []v1alpha1.EngineVersion{{Version: "v1", SupportedTasks: []string{"text-generation"},
			Devices: d,
			DeployTemplate: v1alpha1.DeployTemplate{Process: v1alpha1.ProcessTemplate{Program: "penstock",
				Args: []string{"--model", "${model.source}"}}}}}
		r.apply(store.Engines.Put(e))
	}
	return r, newFake()
}

func sized(t *testing.T, weights int64) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "m.gguf")
	if err := memorytest.Write(path, weights); err != nil {
		t.Fatal(err)
	}
	return path
}

func sizedSpec(engine, path, gpu, variables string) string {
	return "engine: {name: " + engine + "}\nmodel: {name: m, file: " + path + "}\ngatewayRefs: [{name: gw}]\n" +
		"resources: {gpu: " + gpu + "}\nvariables: {" + variables + "}\n"
}

func TestMemory_AModelThatFitsOnNoDeviceIsFailedWithTheNumbers(t *testing.T) {
	for _, c := range []struct {
		name                string
		weights             int64
		engine, gpu, vars   string
		problem, fix, field string
	}{
		{"a long context", 40 * gib, "unlimited", "1", "",
			"a server needs 56.0 GiB of accelerator memory, 40.0 GiB for weights and 16.0 GiB for a cache of 131072 " +
				"tokens, " +
				"and device 1 (NVIDIA L40S) has 45.0 GiB",
			"write spec.variables.ctx: 40960 at most, or write spec.resources.gpu: 2, or write a smaller " +
				"quantization", ""},
		{"weights alone", 100 * gib, "unlimited", "2", "ctx: 1024",
			"a server needs 100.1 GiB of accelerator memory, 100.0 GiB for weights and 128.0 MiB for a cache of 1024 " +
				"tokens, " +
				"and 2 devices such as 1 (NVIDIA L40S) have 90.0 GiB", "write a smaller quantization of the model", ""},
		{"a part of the memory", 40 * gib, "limited", "1", "ctx: 8192",
			"a server needs 41.0 GiB of accelerator memory, 40.0 GiB for weights and 1.0 GiB for a cache of 8192 " +
				"tokens, " +
				"and device 1 (NVIDIA L40S) has 45.0 GiB, of which the engine uses 0.9",
			"write spec.variables.ctx: 4096 at most, or", ""},
		{"a fraction that an argument limits", 20 * gib, "limited", "0.4", "ctx: 1024",
			"a server needs 20.1 GiB of accelerator memory, 20.0 GiB for weights and 128.0 MiB for a cache of 1024 " +
				"tokens, " +
				"and device 1 (NVIDIA L40S) has 45.0 GiB, of which the engine uses 0.4",
			"write a larger part in spec.resources.gpu, or write a smaller", ""},
	} {
		path := sized(t, c.weights)
		synctest.Test(t, func(t *testing.T) {
			r, f := memoryRig(t)
			defer r.begin(f)()
			r.deploy("m", sizedSpec(c.engine, path, c.gpu, c.vars))
			got := r.conditions("m")
			for _, want := range []string{"Ready False Failed " + c.problem, "spec.resources.gpu: " + c.problem,
				c.fix} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: %s\nlacks %s", c.name, got, want)
				}
			}
			if got := f.seen(); got != "" {
				t.Errorf("%s: %s runs", c.name, got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := r.Resume(ctx, target("default/m")); err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%s: a request ends with %v, want the reason", c.name, err)
			}
		})
	}
}

func TestMemory_WhatMayFitStarts(t *testing.T) {
	large, small, none := sized(t, 40*gib), sized(t, 20*gib), filepath.Join(t.TempDir(), "none.gguf")
	if err := os.WriteFile(none, []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, spec, want string }{
		{"a context that fits", sizedSpec("unlimited", large, "1", "ctx: 8192"), "default/m/0 1"},
		{"two devices", sizedSpec("unlimited", large, "2", ""), "default/m/0 1,2"},
		{"a larger part", sizedSpec("limited", large, "1", "ctx: 8192, part: 0.95"), "default/m/0 1"},
		{"an argument with which it is not known", sizedSpec("unlimited", large, "1", "offload: 10"), "default/m/0 0"},
		{"a context that is not known", sizedSpec("unlimited", large, "1", "ctx: many"), "default/m/0 0"},
		{"a file that is no model", sizedSpec("unlimited", none, "1", ""), "default/m/0 0"},
		{"a part of an accelerator without a limit", sizedSpec("unlimited", small, "0.4", "ctx: 1024"),
			"default/m/0 0"},
		{"an engine without memory", strings.Replace(cuda("1"), "name: qwen", "name: qwen, file: "+large, 1),
			"default/m/0 0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, f := memoryRig(t)
			defer r.begin(f)()
			r.deploy("m", c.spec)
			if got := f.seen(); got != c.want {
				t.Errorf("%s: %q runs, want %q: %s", c.name, got, c.want, r.conditions("m"))
			}
		})
	}
}

func TestMemory_AShareThatIsExceededIsAWarning(t *testing.T) {
	path := sized(t, 20*gib)
	synctest.Test(t, func(t *testing.T) {
		r, f := memoryRig(t)
		defer r.begin(f)()
		r.deploy("m", sizedSpec("unlimited", path, "0.4", "ctx: 1024"))
		want := "its share 0.4 of NVIDIA L40S has 18.0 GiB: servers on the same accelerator may lack memory"
		if got := r.conditions("m"); !strings.Contains(got, want) || f.seen() == "" {
			t.Errorf("%q runs: %s", f.seen(), got)
		}
	})
}

func TestMemory_AReservationThatIsTooSmallIsAWarning(t *testing.T) {
	path := sized(t, 20<<20)
	const want = "reserves 10.0 MiB, and the server needs 148.0 MiB at least: servers may lack memory; " +
		"write 148Mi or more"
	for resources, warned := range map[string]bool{"0, memory: 10Mi": true, "0, memory: 100Mi": true, "0": false,
		"1, memory: 10Mi": false} {
		synctest.Test(t, func(t *testing.T) {
			r, f := memoryRig(t)
			defer r.begin(f)()
			r.deploy("m", sizedSpec("unlimited", path, resources, "ctx: 1024"))
			got := r.conditions("m")
			if strings.Contains(got, "spec.resources.memory: reserves 1") != warned || f.seen() == "" {
				t.Errorf("%s: %q runs, warned %v: %s", resources, f.seen(), warned, got)
			}
			if resources == "0, memory: 10Mi" && !strings.Contains(got, want) {
				t.Errorf("%s lacks %s", got, want)
			}
		})
	}
}

func TestMemory_AChangeThatDoesNotFitStopsNothing(t *testing.T) {
	path := sized(t, 40*gib)
	synctest.Test(t, func(t *testing.T) {
		r, f := memoryRig(t)
		defer r.begin(f)()
		r.deploy("m", sizedSpec("unlimited", path, "1", "ctx: 8192"))
		f.set("default/m/0", running)
		synctest.Wait()
		before := f.processes()[0].Hash()
		r.deploy("m", sizedSpec("unlimited", path, "1", "ctx: 131072")+"strategy: Recreate\n")
		got := r.conditions("m")
		if all := f.processes(); len(all) != 1 || all[0].Hash() != before ||
			!strings.Contains(got, "Ready True Running") || !strings.Contains(got, "a server needs 56.0 GiB") {
			t.Errorf("after a change to a context that does not fit, %d processes run: %s", len(all), got)
		}
		r.deploy("m", sizedSpec("unlimited", path, "1", "ctx: 4096"))
		if got := r.conditions("m"); strings.Contains(got, "a server needs") {
			t.Errorf("after the correction: %s", got)
		}
	})
}

func modelMachine(t *testing.T, models controller.Models) (*rig, *fake) {
	r := &rig{T: t, world: store.New()}
	r.Keeper = controller.New(controller.Config{Store: r.world, Program: "/bin/penstock", Models: models,
		List:   func(context.Context, []string) ([]devices.Device, error) { return two() },
		Report: r.report, Log: slog.New(slog.DiscardHandler)})
	engine := &v1alpha1.Engine{ObjectMeta: metav1.ObjectMeta{Name: "cuda"}}
	engine.Spec.Versions = []v1alpha1.EngineVersion{{Version: "v1", SupportedTasks: []string{"text-generation"},
		Devices: &v1alpha1.EngineDevices{List: []string{"nvidia-smi"}, Variable: "CUDA_VISIBLE_DEVICES"},
		DeployTemplate: v1alpha1.DeployTemplate{Process: v1alpha1.ProcessTemplate{Program: "penstock",
			Args: []string{"--model", "${model.source}"}}}}}
	hub := &v1alpha1.ModelRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hf"},
		Spec: v1alpha1.ModelRegistrySpec{Type: "hugging-face"}}
	r.apply(store.Engines.Put(engine), store.ModelRegistries.Put(hub))
	return r, newFake()
}

func TestModels_ADownloadReservesNoAccelerator(t *testing.T) {
	path := sized(t, gib)
	synctest.Test(t, func(t *testing.T) {
		models := &registry{path: path, answer: make(chan error)}
		r, f := modelMachine(t, models)
		defer r.begin(f)()
		r.deploy("chat", strings.Replace(fromRegistry, "llama-like", "cuda", 1)+"resources: {gpu: 2}\n")
		r.deploy("other", strings.Replace(cuda("1"), "qwen", "other", 1))
		f.set("default/other/0", running)
		synctest.Wait()
		if got := f.seen(); got != "default/other/0 0" {
			t.Errorf("during the download of chat, %q runs, want other", got)
		}
		models.answer <- nil
		synctest.Wait()
		if got := f.seen(); got != "default/other/0 0" || !strings.Contains(r.conditions("chat"),
			"Pending it needs 2 devices") {
			t.Errorf("after the download, %q runs: %s", got, r.conditions("chat"))
		}
		r.apply(store.ModelDeployments.Delete("default/other"))
		f.end("default/other/0")
		synctest.Wait()
		if got := f.seen(); got != "default/chat/0 0,1" {
			t.Errorf("once there is room, %q runs, want chat", got)
		}
		// A server whose next model is downloaded keeps its accelerators, also while it restarts.
		f.set("default/chat/0", running)
		synctest.Wait()
		r.deploy("chat", strings.NewReplacer("llama-like", "cuda", "registry",
			"version: v2, registry").Replace(fromRegistry)+
			"resources: {gpu: 2}\n")
		r.deploy("other", strings.Replace(cuda("1"), "qwen", "other", 1))
		f.set("default/chat/0", func(s *processes.State) { s.Phase, s.PID = processes.Waiting, 0 })
		synctest.Wait()
		if got := f.seen(); got != "default/chat/0 0,1" {
			t.Errorf("while chat starts again, %q runs, want chat alone", got)
		}
	})
}
