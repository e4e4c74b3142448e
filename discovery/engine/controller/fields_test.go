package controller_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/engine/fetch"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const withSecret = sim + "env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: tokens, key: token}}}]\n"

func (r *rig) secret(data map[string]string) {
	r.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tokens"}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	r.apply(store.Secrets.Put(s))
}

// tokens returns "NAME VALUE" for each wanted process with the variable TOKEN.
func (f *fake) tokens() (out []string) {
	for _, p := range f.processes() {
		for _, env := range p.Env {
			if value, ok := strings.CutPrefix(env, "TOKEN="); ok {
				out = append(out, p.Name+" "+value)
			}
		}
	}
	slices.Sort(out)
	return out
}

func TestEnvironment_NothingStartsWithoutItsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", withSecret)
		const field = "spec.env[0].valueFrom.secretKeyRef."
		pending := func(want string) {
			t.Helper()
			got := r.conditions("qwen")
			if !strings.Contains(got, "Ready False Pending "+want) || len(r.engines.processes()) > 0 {
				t.Errorf("processes %v, want none, and Pending with %q:\n%s", r.engines.processes(), want, got)
			}
		}
		pending(field + "name: there is no Secret tokens in the namespace default")
		r.secret(map[string]string{"tokens": "v"})
		pending(field + "key: Secret tokens has no key token")
		if got := r.conditions("qwen"); !strings.Contains(got, "write tokens") {
			t.Errorf("the nearest key is not named:\n%s", got)
		}
		r.secret(map[string]string{"token": strings.Repeat("v", 32<<10+1)})
		pending(field + "key: key token of Secret tokens has 32769 bytes")
		r.secret(map[string]string{"token": "v\x00"})
		pending(field + "key: key token of Secret tokens has a NUL character")
		r.secret(map[string]string{"token": "v1"})
		if got := r.engines.tokens(); !slices.Equal(got, []string{"default/qwen/0 v1"}) {
			t.Errorf("the servers get %q, want v1", got)
		}
	})
}

func TestEnvironment_AChangedSecretReplacesServersAndAnAbsentOneDoesNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	synctest.Test(t, func(t *testing.T) {
		r := start(t, file)
		r.secret(map[string]string{"token": "canary-1"})
		r.deploy("qwen", withSecret)
		r.engines.set("default/qwen/0", running)
		synctest.Wait()
		r.secret(map[string]string{"token": "canary-2"})
		want := []string{"default/qwen/0 canary-1", "default/qwen/1 canary-2"}
		if got := r.engines.tokens(); !slices.Equal(got, want) {
			t.Errorf("during the change the servers have %q, want the old one beside the new one", got)
		}
		r.engines.set("default/qwen/1", running)
		synctest.Wait()
		r.engines.set("default/qwen/0", func(s *processes.State) {
			*s = processes.State{Name: s.Name, Phase: processes.Stopped}
		})
		synctest.Wait()
		r.apply(store.Secrets.Delete("default/tokens"))
		if got := r.engines.tokens(); !slices.Equal(got, []string{"default/qwen/1 canary-2"}) {
			t.Errorf("without the Secret the servers have %q, want the one that runs", got)
		}
		got := r.conditions("qwen")
		if !strings.Contains(got, "Ready True Running") || !strings.Contains(got, "there is no Secret tokens") {
			t.Errorf("the deployment reports, want Running and the absent Secret:\n%s", got)
		}
		r.engines.set("default/qwen/1", func(s *processes.State) {
			s.Phase, s.PID, s.Reason = processes.Waiting, 0, "exit status 1"
		})
		synctest.Wait()
		if got := r.engines.processes(); len(got) > 0 {
			t.Errorf("a server starts again without its Secret: %v", got)
		}
		raw, err := os.ReadFile(file)
		if text := string(raw) + r.conditions("qwen"); err != nil || strings.Contains(text, "canary") {
			t.Errorf("a value of the Secret is written: %v %s", err, text)
		}
	})
}

func TestEnvironment_LastWordsHaveNoSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.secret(map[string]string{"token": "plain"}) // looks like no credential, by name and by form
		r.deploy("qwen", strings.ReplaceAll(withSecret, "TOKEN", "MODE"))
		if p := r.engines.processes(); len(p) != 1 || !slices.Contains(p[0].Secrets, "plain") {
			t.Errorf("the processes are %+v, want one whose last words hide the value", p)
		}
	})
}

func gate(r *rig) *v1alpha1.AccessPolicy {
	p, _ := store.AccessPolicies.Get(r.world.View(), "default/qwen")
	return p
}

func TestAccess_AMistakeElsewhereDoesNotLeaveTheModelOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	for round := range 2 { // the second round is a new process with the same state file
		synctest.Test(t, func(t *testing.T) {
			r := start(t, file)
			if round == 0 {
				r.deploy("qwen", sim)
				if gate(r) != nil {
					t.Error("without access there is an AccessPolicy")
				}
			}
			r.deploy("qwen", sim+"access: {apiKeys: {}}\nvariables: {max-num-seq: 16}\n")
			got := r.conditions("qwen")
			if p := gate(r); p == nil || p.Spec.APIKeys == nil || !strings.Contains(got, "Accepted False") {
				t.Errorf("round %d: the AccessPolicy is %v, want one that gates the last good version:\n%s", round, p,
					got)
			}
			if round == 0 {
				return
			}
			r.deploy("qwen", sim+"access: {apiKeys: {}}\n")
			r.deploy("qwen", sim+"access: null\n")
			if p := gate(r); p == nil {
				t.Error("access: null opens the model")
			}
			r.deploy("qwen", sim)
			if p := gate(r); p != nil {
				t.Errorf("after access is removed, %v gates the model", p.Spec)
			}
		})
	}
}

func TestAccess_AUsersPolicyOfTheNameStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		mine := &v1alpha1.AccessPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "qwen"}}
		r.apply(store.AccessPolicies.Put(mine))
		r.deploy("qwen", sim)
		if got := r.conditions("qwen"); !strings.Contains(got, "Accepted True") || gate(r) != mine {
			t.Errorf("without access: policy %v, %s", gate(r), got)
		}
		r.deploy("qwen", sim+"access: {apiKeys: {}}\n")
		got := r.conditions("qwen")
		_, routed := store.HTTPRoutes.Get(r.world.View(), "default/qwen")
		if !strings.Contains(got, "there is another AccessPolicy default/qwen") || gate(r) != mine || routed {
			t.Errorf("with access: policy %v, routed %v, want the user's policy alone:\n%s", gate(r), routed, got)
		}
	})
}

func TestCluster_OnlyThisOneStartsServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", sim+"cluster: west\n")
		expect := func(want string, processes int) {
			t.Helper()
			got, n := r.conditions("qwen"), len(r.engines.processes())
			if !strings.Contains(got, want) || n != processes {
				t.Errorf("%d processes, want %d and %s:\n%s", n, processes, want, got)
			}
		}
		expect(`Accepted False ClusterNotFound spec.cluster: there is no cluster "west" here: this cluster has no name`, 0)
		set := &v1alpha1.ClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}}
		set.Spec.Cluster = "east"
		r.apply(store.ClusterSets.Put(set))
		expect("this cluster is east, and Penstock starts servers in it alone", 0)
		r.deploy("qwen", sim+"cluster: east\n")
		expect("Accepted True", 1)
		r.deploy("qwen", sim+"cluster: west\n") // the last good version stays
		expect("Accepted False ClusterNotFound", 1)
		renamed := *set
		renamed.Spec.Cluster = "west"
		r.apply(store.ClusterSets.Put(&renamed))
		expect("Accepted True", 1)
	})
}

func TestAdapters_AnotherDeploymentsNameIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", sim+"adapters: [{name: sql}]\n")
		r.deploy("other", strings.Replace(sim, "name: qwen", "name: sql", 1))
		const want = "Accepted False NameConflict ModelDeployment default/qwen serves sql at the same Gateway"
		if got := r.conditions("other"); !strings.Contains(got, want) {
			t.Errorf("the other deployment reports, want %s:\n%s", want, got)
		}
		r.deploy("third", strings.Replace(sim, "name: qwen", "name: third", 1)+"adapters: [{name: a}, {name: qwen}]\n")
		const field = "spec.adapters[1].name: ModelDeployment default/qwen serves qwen at the same Gateway"
		if got := r.conditions("third"); !strings.Contains(got, field) {
			t.Errorf("the third deployment reports, want %s:\n%s", field, got)
		}
	})
}

func TestAdapters_AreDownloadedBeforeServersStart(t *testing.T) {
	dir := t.TempDir()
	stateFile := filepath.Join(t.TempDir(), "deployments.json")
	synctest.Test(t, func(t *testing.T) {
		models := &registry{path: dir, answer: make(chan error)}
		r, f := modelRig(t, stateFile, models)
		engine, _ := store.Engines.Get(r.world.View(), "llama-like")
		loads := *engine
		loads.Spec.Versions = slices.Clone(engine.Spec.Versions)
		loads.Spec.Versions[0].Capabilities.LoRA = &v1alpha1.AdapterTemplate{
			Args: []string{"--lora"}, Each: []string{"${adapter.name}=${adapter.path}"}}
		r.apply(store.Engines.Put(&loads))
		defer r.begin(f)()
		const spec = "engine: {name: llama-like}\nmodel: {name: m}\ngatewayRefs: [{name: gw}]\nadapters:\n" +
			"- {name: here, source: {path: PATH}}\n- {name: sql, source: {registry: hf, name: org/sql, version: v1}}\n"
		r.deploy("chat", strings.Replace(spec, "PATH", dir+"/absent", 1))
		synctest.Wait()
		if got := r.ready(); got != "Failed there is no "+dir+"/absent" {
			t.Errorf("with an absent path: %s", got)
		}
		r.deploy("chat", strings.Replace(spec, "PATH", dir, 1))
		synctest.Wait()
		if got := r.ready(); !strings.HasPrefix(got, "ModelDownloading model org/sql") || f.commands() != "" {
			t.Errorf("during the download: %s, runs %q", got, f.commands())
		}
		want := fetch.Source{Token: "hf_secret", Name: "org/sql", Revision: "v1"}
		if got := models.asked(); len(got) != 1 || got[0] != want {
			t.Errorf("asked for %+v, want %+v", got, want)
		}
		models.answer <- nil
		synctest.Wait()
		if got, want := f.commands(), "--model m --lora here="+dir+" sql="+dir; got != want {
			t.Errorf("after the download %q runs, want %q", got, want)
		}
		r.deploy("chat", strings.Replace(strings.Replace(spec, "PATH", dir, 1), "hf", "hg", 1))
		synctest.Wait()
		const missing = `spec.adapters[1].source.registry`
		for _, one := range r.reported() {
			for _, f := range one.Findings {
				if f.Field == missing {
					return
				}
			}
		}
		t.Errorf("no finding is about %s: %v", missing, r.reported())
	})
}
