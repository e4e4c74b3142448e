package controller_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func program(t *testing.T, path string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func withInstalled(t *testing.T, stateFile, installed string, runs []processes.State, inherited ...string) *rig {
	return startWith(t, controller.Config{StateFile: stateFile, Installed: []string{installed}, Inherited: inherited},
		runs...)
}

const vllm = "engine: {name: vllm}\nmodel: {name: qwen}\ngatewayRefs: [{name: gw}]\nidle: 0s\n"

func TestProgram_IsSearchedOnPATHThenWhereTheEngineNamesThenAmongInstalledOnes(t *testing.T) {
	dir := t.TempDir()
	onPath, named := filepath.Join(dir, "path"), filepath.Join(dir, "named")
	installed := filepath.Join(dir, "installed", ".hidden", "bin")
	own := &v1alpha1.Engine{}
	own.Name = "own"
	own.Spec.Versions = []v1alpha1.EngineVersion{{Version: "v1", SupportedTasks: []string{v1alpha1.TextGeneration},
		DeployTemplate: v1alpha1.DeployTemplate{Process: v1alpha1.ProcessTemplate{Program: "serves",
			Path: []string{named}, Install: "make it"}}}}
	if err := os.MkdirAll(filepath.Dir(installed), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".hidden", filepath.Join(dir, "installed", "own-v1")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", onPath)
	for _, at := range []string{"", installed, named, onPath} {
		if at != "" {
			program(t, filepath.Join(at, "serves"))
		}
		synctest.Test(t, func(t *testing.T) {
			r := withInstalled(t, "", filepath.Join(dir, "installed"), nil, "A=b", "PATH="+onPath)
			r.apply(store.Engines.Put(own))
			r.deploy("qwen", "engine: {name: own}\nmodel: {name: qwen}\n")
			all := r.engines.processes()
			if at == "" {
				want := "Ready False Failed the program serves is not on PATH; install it with: make it"
				if got := r.conditions("qwen"); len(all) > 0 || !strings.Contains(got, want) {
					t.Errorf("%v %s, want %s", all, got, want)
				}
				return
			}
			path := "PATH=" + onPath
			if at != onPath {
				path += ":" + at
			}
			if len(all) != 1 || all[0].Command[0] != filepath.Join(at, "serves") ||
				!slices.Equal(all[0].Inherited, []string{"A=b", path}) {
				t.Errorf("%+v, want the program in %s", all, at)
			}
		})
	}
}

func TestProgram_AServerOutlivesIt(t *testing.T) {
	dir := t.TempDir()
	state, path := filepath.Join(dir, "deployments.json"), filepath.Join(dir, "bin", "vllm")
	t.Setenv("PATH", filepath.Dir(path))
	program(t, path)
	var before []processes.State
	for round := range 4 {
		gone := round%2 == 1
		if gone {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			program(t, path)
		}
		synctest.Test(t, func(t *testing.T) {
			r := withInstalled(t, state, filepath.Join(dir, "installed"), before)
			r.deploy("qwen", vllm)
			if round == 0 {
				r.engines.set("default/qwen/0", running)
			}
			synctest.Wait()
			all := r.engines.processes()
			if len(all) != 1 || all[0].Keep != gone || r.servers("qwen") != 1 {
				t.Fatalf("round %d: %+v with %d servers", round, all, r.servers("qwen"))
			}
			got := r.conditions("qwen")
			if !strings.Contains(got, "Ready True Running") ||
				strings.Contains(got, "install it with: penstock engines install vllm") != gone {
				t.Errorf("round %d: %s", round, got)
			}
			if !gone && round > 0 && all[0].Hash() != before[0].Hash {
				t.Errorf("round %d: the server has another command", round)
			}
			before = r.engines.States()
			if round < 3 {
				return
			}
			// A server that ends cannot start again without its program.
			r.engines.set("default/qwen/0", func(s *processes.State) { s.Phase, s.PID = processes.Waiting, 0 })
			synctest.Wait()
			const want = "Ready False Failed the program vllm is not on PATH"
			if got := r.conditions("qwen"); !strings.Contains(got, want) {
				t.Error(got)
			}
		})
	}
}

func TestProgram_AnAbsolutePathIsNotSearchedOnPATH(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "absent"): "does not exist", dir: "is a folder",
		plain: "is not executable", "no-such-program": "is not on PATH"} {
		own := &v1alpha1.Engine{}
		own.Name = "own"
		own.Spec.Versions = []v1alpha1.EngineVersion{{Version: "v1", SupportedTasks: []string{v1alpha1.TextGeneration},
			DeployTemplate: v1alpha1.DeployTemplate{Process: v1alpha1.ProcessTemplate{Program: path}}}}
		synctest.Test(t, func(t *testing.T) {
			r := start(t, "")
			r.apply(store.Engines.Put(own))
			r.deploy("qwen", "engine: {name: own}\nmodel: {name: qwen}\n")
			want := "the program " + path + " " + want +
				": see Engine own spec.versions[0].deployTemplate.process.program"
			if got := r.conditions("qwen"); !strings.Contains(got, "Ready False Failed "+want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
