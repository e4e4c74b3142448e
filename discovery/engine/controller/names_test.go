package controller_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const adapted = "engine: {name: sim}\nmodel: {name: base}\nadapters: [{name: qwen}]\ngatewayRefs: [{name: gw}]\n"

func put(t *testing.T, texts ...string) (ops []store.Op) {
	t.Helper()
	for i := 0; i < len(texts); i += 2 {
		d := &v1alpha1.ModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: texts[i]}}
		if err := yaml.UnmarshalStrict([]byte(texts[i+1]), &d.Spec); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, store.ModelDeployments.Put(d))
	}
	return ops
}

func (r *rig) owns(owner, other string) {
	r.Helper()
	if got := r.conditions(owner); !strings.Contains(got, "Accepted True") {
		r.Errorf("%s: %s", owner, got)
	}
	want := "Accepted False NameConflict ModelDeployment default/" + owner + " serves qwen at the same Gateway"
	if got := r.conditions(other); !strings.Contains(got, want) {
		r.Errorf("%s: %s, want %s", other, got, want)
	}
}

func TestServedName_ItsOwnerKeepsItOverRestarts(t *testing.T) {
	for newcomer, spec := range map[string]string{"aaa": sim, "adapted": adapted} {
		file := filepath.Join(t.TempDir(), "deployments.json")
		synctest.Test(t, func(t *testing.T) {
			r := start(t, file)
			r.deploy("zed", sim)
			r.deploy(newcomer, spec)
			r.owns("zed", newcomer)
		})
		for range 2 {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, file)
				r.apply(put(t, newcomer, spec, "zed", sim)...)
				r.owns("zed", newcomer)
				if got := r.engines.processes(); len(got) != 1 || got[0].Name != "default/zed/0" {
					t.Errorf("processes %v", got)
				}
			})
		}
	}
}

func TestServedName_AModelPrecedesAnAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.apply(put(t, "adapted", adapted, "qwen", sim)...)
		r.owns("qwen", "adapted")
		r.apply(store.ModelDeployments.Delete("default/qwen"))
		r.deploy("qwen", sim)
		r.owns("adapted", "qwen") // adapted has run since the deletion
	})
}

func TestServedName_AdaptersAndModelsInACircleFollowTheirNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.apply(put(t, "qwen", sim+"adapters: [{name: base}]\n", "base", adapted)...)
		if got := r.conditions("base"); !strings.Contains(got, "Accepted True") {
			t.Error(got)
		}
	})
}

func (r *rig) routed() string {
	var out []string
	for _, route := range store.HTTPRoutes.All(r.world.View()) {
		out = append(out, route.Name+"="+strings.Join(deployment.Models(route), ","))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (r *rig) routes(when, want string) {
	r.Helper()
	if got := r.routed(); got != want {
		r.Errorf("%s: routes %q, want %q", when, got, want)
	}
}

func serves(model string) string { return strings.Replace(sim, "qwen", model, 1) }

func TestServedName_AnEditTakesNoOthersName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	synctest.Test(t, func(t *testing.T) {
		r := start(t, file)
		r.apply(put(t, "aaa", serves("one"), "zed", sim)...)
		r.deploy("aaa", serves("one")+"access: {apiKeys: {}}\nadapters: [{name: qwen}]\n")
		r.owns("zed", "aaa")
		r.routes("an edited adapter", "aaa=one zed=qwen")
		if _, gated := store.AccessPolicies.Get(r.world.View(), "default/aaa"); !gated {
			t.Error("the version with another's name gates the model no more")
		}
		r.deploy("aaa", sim)
		r.owns("zed", "aaa")
		r.routes("an edited name", "aaa=one zed=qwen")
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, file)
		r.apply(put(t, "aaa", sim, "zed", sim)...)
		r.owns("zed", "aaa")
		r.routes("after a restart", "aaa=one zed=qwen")
		r.deploy("new", serves("one")) // a name that aaa has given up
		r.routes("another one has the old name", "new=one zed=qwen")
		r.deploy("zed", serves("two"))
		r.routes("the owner has another name", "aaa=qwen new=one zed=two")
		if got := r.conditions("aaa"); !strings.Contains(got, "Accepted True") {
			t.Error(got)
		}
	})
}

func TestServedName_TwoDeploymentsExchangeTheirs(t *testing.T) {
	for _, steps := range []int{1, 2} { // files that are saved together, or one after the other
		synctest.Test(t, func(t *testing.T) {
			r := start(t, "")
			r.apply(put(t, "a", serves("one"), "b", serves("two"))...)
			ops := put(t, "a", serves("two"), "b", serves("one"))
			for at := 0; at < len(ops); at += 2 / steps {
				r.apply(ops[at : at+2/steps]...)
			}
			r.routes(fmt.Sprint(steps, " steps"), "a=two b=one")
			for _, name := range []string{"a", "b"} {
				if got := r.conditions(name); !strings.Contains(got, "Accepted True") {
					t.Errorf("%d steps: %s: %s", steps, name, got)
				}
			}
		})
	}
}

func TestUsersObject_LeavesServersThatRun(t *testing.T) {
	name := metav1.ObjectMeta{Namespace: "default", Name: "qwen"}
	for kind, op := range map[string][2]store.Op{
		"InferencePool": {store.InferencePools.Put(&inferencev1.InferencePool{ObjectMeta: name}),
			store.InferencePools.Delete("default/qwen")},
		"ModelServers": {store.ModelServers.Put(&v1alpha1.ModelServers{ObjectMeta: name}),
			store.ModelServers.Delete("default/qwen")},
	} {
		file := filepath.Join(t.TempDir(), "deployments.json")
		var runs processes.State
		synctest.Test(t, func(t *testing.T) {
			r := start(t, file)
			r.deploy("qwen", sim)
			r.engines.set("default/qwen/0", running)
			synctest.Wait()
			r.apply(op[0])
			r.deploy("aaa", sim)
			want := "Accepted False NameConflict there is another " + kind
			if got := r.conditions("qwen"); !strings.Contains(got, want) || len(r.engines.processes()) != 1 {
				t.Errorf("%s: processes %v: %s", kind, r.engines.processes(), got)
			}
			runs = r.engines.States()[0]
			r.apply(op[1])
			r.owns("qwen", "aaa")
			if got := r.engines.States(); r.servers("qwen") != 1 || got[0] != runs {
				t.Errorf("%s: without the user's object: servers %d, %v", kind, r.servers("qwen"), got)
			}
		})
		synctest.Test(t, func(t *testing.T) { // a new process
			r := startWith(t, controller.Config{StateFile: file}, runs)
			r.apply(append(put(t, "qwen", sim), op[0])...)
			if got := r.engines.processes(); len(got) != 1 || !got[0].Keep || got[0].Ready == "" {
				t.Errorf("%s: after a restart, processes %v", kind, got)
			}
			r.apply(op[1])
			if got := r.engines.States(); r.servers("qwen") != 1 || got[0] != runs {
				t.Errorf("%s: after a restart: servers %d, %v", kind, r.servers("qwen"), got)
			}
		})
	}
}

func TestUsersObject_PreventsServersOfANewDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		mine := &v1alpha1.ModelServers{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "qwen"}}
		r.apply(append(put(t, "qwen", sim), store.ModelServers.Put(mine))...)
		if got := r.conditions("qwen"); !strings.Contains(got, "NameConflict") || len(r.engines.processes()) > 0 {
			t.Errorf("processes %v: %s", r.engines.processes(), got)
		}
	})
}
