package controller_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type registry struct {
	path   string
	answer chan error

	mu      sync.Mutex
	sources []fetch.Source
}

func (r *registry) Fetch(ctx context.Context, s fetch.Source, progress func(fetch.Progress)) (fetch.Model, error) {
	r.mu.Lock()
	r.sources = append(r.sources, s)
	r.mu.Unlock()
	progress(fetch.Progress{Total: 2, Files: 1, Bytes: 1 << 30, Size: 4 << 30})
	select {
	case err := <-r.answer:
		return fetch.Model{Commit: "c1", Path: r.path}, err
	case <-ctx.Done():
		return fetch.Model{}, ctx.Err()
	}
}

func (r *registry) asked() []fetch.Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]fetch.Source(nil), r.sources...)
}

const fromRegistry = `
engine: {name: llama-like}
model: {name: org/model, registry: hf, file: Q4_K_M}
gatewayRefs: [{name: gw}]
`

func modelRig(t *testing.T, stateFile string, models controller.Models) (*rig, *fake) {
	t.Helper()
	r := &rig{T: t, world: store.New()}
	r.Keeper = controller.New(controller.Config{Store: r.world, StateFile: stateFile, Program: "/bin/penstock",
		Models: models, Report: r.report, Log: slog.New(slog.DiscardHandler)})
	engine := &v1alpha1.Engine{ObjectMeta: metav1.ObjectMeta{Name: "llama-like"}}
	engine.Spec.Versions = []v1alpha1.EngineVersion{{Version: "v1", SupportedTasks: []string{"text-generation"},
		DeployTemplate: v1alpha1.DeployTemplate{Process: v1alpha1.ProcessTemplate{Program: "penstock",
			Args: []string{"--model", "${model.source}"}}}}}
	registry := &v1alpha1.ModelRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hf"},
		Spec: v1alpha1.ModelRegistrySpec{Type: "hugging-face", Credentials: &v1alpha1.RegistryCredentials{
			SecretRef: v1alpha1.AccessObject{Name: "token"}}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "token"},
		Data: map[string][]byte{"token": []byte("hf_secret\n")}}
	r.apply(store.Engines.Put(engine), store.ModelRegistries.Put(registry), store.Secrets.Put(secret))
	return r, &fake{states: map[string]processes.State{}, changed: make(chan struct{})}
}

func (f *fake) commands() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, p := range f.wanted {
		out = append(out, strings.Join(p.Command[1:], " "))
	}
	return strings.Join(out, ", ")
}

func (r *rig) ready() string {
	for _, one := range r.reported() {
		for _, c := range one.Conditions {
			if c.Type == controller.ConditionReady {
				return c.Reason + " " + c.Message
			}
		}
	}
	return ""
}

func TestModels_ARegistrysModelIsDownloadedAndPinned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stateFile := filepath.Join(t.TempDir(), "deployments.json")
	synctest.Test(t, func(t *testing.T) {
		models := &registry{path: path, answer: make(chan error)}
		r, f := modelRig(t, stateFile, models)
		stop := r.begin(f)
		r.deploy("chat", fromRegistry)
		synctest.Wait()
		const downloads = "ModelDownloading model org/model: 1.0 GiB of 4.0 GiB (25 %), 1 of 2 files"
		if got := r.ready(); got != downloads {
			t.Errorf("during the download: %s, want %s", got, downloads)
		}
		if got := f.commands(); got != "" {
			t.Errorf("during the download, %s runs", got)
		}
		want := fetch.Source{Token: "hf_secret", Name: "org/model", File: "Q4_K_M"}
		if got := models.asked(); len(got) != 1 || got[0] != want {
			t.Errorf("asked for %+v, want %+v", got, want)
		}
		models.answer <- nil
		synctest.Wait()
		if got := f.commands(); got != "--model "+path {
			t.Errorf("after the download: %s", got)
		}
		f.set("default/chat/0", running)
		synctest.Wait()
		// The next version of the model is downloaded while the current one serves.
		r.deploy("chat", strings.Replace(fromRegistry, "registry", "version: v2, registry", 1))
		synctest.Wait()
		if got := f.commands(); got != "--model "+path || !strings.HasPrefix(r.ready(), "Running") {
			t.Errorf("during the next download: %s %s", got, r.ready())
		}
		r.deploy("chat", fromRegistry)
		synctest.Wait()
		stop()
		if raw, err := os.ReadFile(stateFile); err != nil || strings.Contains(string(raw), "hf_secret") {
			t.Errorf("the state file has the credential: %s %v", raw, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a new process contacts no registry
		models := &registry{answer: make(chan error)}
		r, f := modelRig(t, stateFile, models)
		r.deploy("chat", fromRegistry)
		defer r.begin(f)()
		if got := models.asked(); len(got) != 0 || f.commands() != "--model "+path {
			t.Errorf("asked %+v, runs %s", got, f.commands())
		}
	})
}

func TestModels_AFailureNamesItsFieldAndIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		models := &registry{path: path, answer: make(chan error)}
		r, f := modelRig(t, "", models)
		defer r.begin(f)()
		found := func(text string) {
			t.Helper()
			synctest.Wait()
			for _, one := range r.reported() {
				for _, f := range one.Findings {
					if strings.Contains(f.Field+": "+f.Problem+"; "+f.Fix, text) {
						return
					}
				}
			}
			t.Errorf("no finding has %s: %v", text, r.reported())
		}
		r.deploy("chat", strings.Replace(fromRegistry, "hf", "hg", 1))
		found(`spec.model.registry: there is no ModelRegistry "hg"; write hf`)
		r.deploy("chat", fromRegistry)
		synctest.Wait()
		models.answer <- &fetch.Error{Field: "file", Problem: "there are 2 files", Fix: "write one"}
		found("spec.model.file: there are 2 files; write one")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(models.asked()); n != 2 {
			t.Errorf("asked %d times, want 2", n)
		}
		models.answer <- errors.New("another failure")
		r.apply(store.Secrets.Delete("default/token"))
		found("spec.model.registry: ModelRegistry hf names the Secret token, which does not exist or has no key token")
		folder := &v1alpha1.ModelRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hf"},
			Spec: v1alpha1.ModelRegistrySpec{Type: "file", Path: filepath.Dir(path)}}
		r.apply(store.ModelRegistries.Put(folder))
		found("spec.model.name: there is no " + filepath.Dir(path) + "/org/model/Q4_K_M")
		r.deploy("chat", strings.NewReplacer("org/model", "m.gguf", ", file: Q4_K_M", "").Replace(fromRegistry))
		synctest.Wait()
		if got := f.commands(); got != "--model "+path {
			t.Errorf("a file of a folder: %s %v", got, r.reported())
		}
		r.deploy("chat", strings.Replace(fromRegistry, "org/model", "../m", 1))
		found("spec.model.name: it leads out of the registry's folder")
	})
}

func TestModelRegistry_ItsStatusHasTheLastContact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		models := &registry{path: path, answer: make(chan error)}
		r, f := modelRig(t, "", models)
		defer r.begin(f)()
		shows := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := r.conditions("hf"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		const unknown = "Accepted True Accepted \nReady Unknown NotContacted not contacted yet"
		shows(unknown)
		r.deploy("chat", fromRegistry)
		shows("Accepted True Accepted \nReady True Reachable ") // the registry has returned its list of files
		models.answer <- &fetch.Error{Field: "registry", Problem: "it hangs", Fix: "wait"}
		shows("Accepted True Accepted \nReady False Unreachable it hangs")
		time.Sleep(time.Minute)
		shows("Accepted True Accepted \nReady True Reachable ")
		models.answer <- &fetch.Error{Problem: "the disk is full", Fix: "make room"}
		shows("Accepted True Accepted \nReady True Reachable ")
		const problem = "the Secret token does not exist or has no key token"
		r.apply(store.Secrets.Delete("default/token"))
		shows("Accepted False SecretNotFound " + problem +
			"\nModelRegistry default/hf spec.credentials.secretRef.name: " + problem + "; write the Secret")
		folder := &v1alpha1.ModelRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hf"},
			Spec: v1alpha1.ModelRegistrySpec{Type: "file", Path: filepath.Dir(path)}}
		r.apply(store.ModelRegistries.Put(folder))
		shows("Accepted True Accepted \nReady True Reachable ")
		r.apply(store.ModelRegistries.Delete("default/hf"))
		shows("")
	})
}

func TestModels_AnInvalidRegistryOrEngineIsNotReportedAsAbsent(t *testing.T) {
	mark := func(kind, namespace, name string) *store.Invalid {
		return &store.Invalid{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: store.InvalidName(kind, name)}}
	}
	synctest.Test(t, func(t *testing.T) {
		r, f := modelRig(t, "", &registry{answer: make(chan error)})
		defer r.begin(f)()
		shows := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := r.conditions("chat"); !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		r.deploy("chat", strings.Replace(fromRegistry, "hf", "hg", 1))
		r.apply(store.Invalids.Put(mark("ModelRegistry", "default", "hg")))
		shows("spec.model.registry: ModelRegistry hg is invalid: see its own finding; correct it")
		r.apply(store.Invalids.Delete("default/" + store.InvalidName("ModelRegistry", "hg")))
		shows(`spec.model.registry: there is no ModelRegistry "hg"; write hf`)
		r.deploy("chat", "engine: {name: mine}\nmodel: {name: qwen}\n")
		r.apply(store.Invalids.Put(mark("Engine", "", "mine")))
		shows("Accepted False Invalid spec.engine.name: engine mine is invalid: see its own finding")
		shows("default/chat spec.engine.name: engine mine is invalid: see its own finding; correct it")
	})
}

type never struct{}

func (never) Fetch(context.Context, fetch.Source, func(fetch.Progress)) (fetch.Model, error) {
	return fetch.Model{}, &fetch.Error{Field: "name", Problem: "it is no name", Unasked: true}
}

func TestModelRegistry_AnInvalidNameIsNoContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, f := modelRig(t, "", never{})
		defer r.begin(f)()
		r.deploy("chat", fromRegistry)
		synctest.Wait()
		if got := r.ready(); got != "Failed it is no name" {
			t.Error(got)
		}
		if got := r.conditions("hf"); got != "Accepted True Accepted \nReady Unknown NotContacted not contacted yet" {
			t.Errorf("got %s", got)
		}
	})
}
