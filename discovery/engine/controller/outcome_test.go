package controller_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/engine/devices"
	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (r *rig) resume(id string) <-chan error {
	out := make(chan error, 1)
	go func() { out <- r.Resume(r.Context(), target(id)) }()
	synctest.Wait()
	return out
}

func (r *rig) answers(name, want string) {
	r.Helper()
	select {
	case err := <-r.resume("default/" + name):
		if err == nil || !strings.Contains(err.Error(), want) {
			r.Errorf("%s: a request gets %v, want %s", name, err, want)
		}
	default:
		r.Errorf("%s: a request waits: %s", name, r.conditions(name))
	}
	if got := r.conditions(name); !strings.Contains(got, "Ready False Failed "+want) {
		r.Errorf("%s: %s, want the same reason", name, got)
	}
}

func TestResume_AFailedModelIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		models := &registry{answer: make(chan error)}
		r, f := modelRig(t, "", models)
		follow(r)
		defer r.begin(f)()
		r.deploy("chat", fromRegistry)
		waits := r.resume("default/chat")
		if len(waits) > 0 {
			t.Fatalf("during the download: %v", <-waits)
		}
		models.answer <- &fetch.Error{Field: "registry", Problem: "connection refused", Fix: "wait"}
		synctest.Wait()
		if len(waits) == 0 {
			t.Error("the request waits after the download has failed")
		}
		r.answers("chat", "connection refused")
		folder := filepath.Join(t.TempDir(), "absent")
		files := &v1alpha1.ModelRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "files"},
			Spec: v1alpha1.ModelRegistrySpec{Type: "file", Path: folder}}
		r.apply(store.ModelRegistries.Put(files))
		r.deploy("local", strings.NewReplacer("hf", "files", "org/model", "local").Replace(fromRegistry))
		r.answers("local", "there is no "+folder)
		r.deploy("nowhere", strings.NewReplacer("hf", "another", "org/model", "nowhere").Replace(fromRegistry))
		r.answers("nowhere", `there is no ModelRegistry "another"`)
	})
}

func TestResume_AFailedListOrRequestForDevicesIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var known atomic.Bool
		r := machine(t, "", func() ([]devices.Device, error) {
			if known.Load() {
				return devices.Numbered(2), nil
			}
			time.Sleep(time.Second)
			return nil, errors.New("the driver hangs")
		})
		follow(r)
		defer r.begin(newFake())()
		r.deploy("qwen", cuda("1"))
		waits := r.resume("default/qwen")
		if len(waits) > 0 {
			t.Fatalf("before the list is known: %v", <-waits)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(waits) == 0 {
			t.Error("the request waits after the list has failed")
		}
		r.answers("qwen", "the devices of this machine are not known: the driver hangs")
		known.Store(true)
		time.Sleep(2 * time.Minute)
		r.deploy("large", strings.Replace(cuda("3"), "qwen", "large", 1))
		r.answers("large", "it needs 3 devices")
	})
}

func TestResume_RequestsWaitForTheRestartOfAServerThatServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		follow(r)
		r.deploy("qwen", sim)
		r.engines.set("default/qwen/0", running)
		ends := func(served bool, failures int) {
			r.engines.set("default/qwen/0", func(s *processes.State) {
				s.Phase, s.PID, s.Reason, s.Served, s.Failures = processes.Waiting, 0, "signal killed", served, failures
			})
			synctest.Wait()
		}
		ends(true, 1)
		waits := r.resume("default/qwen")
		r.engines.set("default/qwen/0", func(s *processes.State) { s.Phase, s.PID = processes.Starting, 2 })
		synctest.Wait()
		if len(waits) > 0 {
			t.Fatalf("before the server is back, a request gets %v", <-waits)
		}
		r.engines.set("default/qwen/0", running)
		if err := <-waits; err != nil {
			t.Errorf("afterwards, a request gets %v", err)
		}
		for failures, served := range map[int]bool{1: false, 4: true} {
			ends(served, failures)
			if again := r.resume("default/qwen"); len(again) == 0 {
				t.Errorf("failures %d, served %v: a request waits", failures, served)
			} else if err := <-again; err == nil || !strings.Contains(err.Error(), "signal killed") {
				t.Errorf("failures %d, served %v: a request gets %v", failures, served, err)
			}
		}
	})
}

func TestResume_APausedDeploymentIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		follow(r)
		r.deploy("qwen", sim+"replicas: 0\n")
		if d, ok := r.Demand(target("default/qwen")); !ok || d.Model != "" {
			t.Errorf("%+v %v, want a demand without a model", d, ok)
		}
		select {
		case err := <-r.resume("default/qwen"):
			if err == nil || err.Error() != "spec.replicas is 0" {
				t.Errorf("a request gets %v", err)
			}
		default:
			t.Error("a request waits")
		}
	})
}
