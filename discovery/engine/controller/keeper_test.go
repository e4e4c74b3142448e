package controller_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/discovery/engine/controller"
	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type fake struct {
	changed chan struct{}

	mu     sync.Mutex
	wanted []processes.Process
	states map[string]processes.State
}

func (f *fake) Want(list []processes.Process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = list
	for _, p := range list {
		if s := f.states[p.Name]; s.Hash != p.Hash() && !p.Keep {
			f.states[p.Name] = processes.State{Name: p.Name, Phase: processes.Starting, PID: 1, Hash: p.Hash()}
		}
	}
}

func (f *fake) States() (out []processes.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.states {
		out = append(out, s)
	}
	return out
}

func (f *fake) Changed() <-chan struct{} { return f.changed }

func (f *fake) set(name string, change func(*processes.State)) {
	f.mu.Lock()
	s := f.states[name]
	change(&s)
	f.states[name] = s
	f.mu.Unlock()
	f.changed <- struct{}{}
}

func running(s *processes.State) { s.Phase = processes.Running }

type rig struct {
	*testing.T
	*controller.Keeper
	world   *store.Store
	engines *fake

	mu      sync.Mutex
	reports []report.Report
}

func (r *rig) report(reports []report.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = reports
}

func (r *rig) reported() []report.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports
}

func (f *fake) processes() []processes.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted
}

func start(t *testing.T, stateFile string) *rig {
	return startWith(t, controller.Config{StateFile: stateFile})
}

// startWith runs a Keeper until the end of the test. runs are processes of an earlier Keeper.
func startWith(t *testing.T, cfg controller.Config, runs ...processes.State) *rig {
	r := &rig{T: t, world: store.New(),
		engines: &fake{states: map[string]processes.State{}, changed: make(chan struct{})}}
	for _, s := range runs {
		r.engines.states[s.Name] = s
	}
	cfg.Store, cfg.Program, cfg.Report, cfg.Log = r.world, "/bin/penstock", r.report, slog.New(slog.DiscardHandler)
	r.Keeper = controller.New(cfg)
	if err := r.Start(r.engines); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Keeper.Run(ctx, r.engines)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return r
}

func (r *rig) deploy(name, spec string) {
	r.Helper()
	d := &v1alpha1.ModelDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &d.Spec); err != nil {
		r.Fatal(err)
	}
	r.apply(store.ModelDeployments.Put(d))
}

func (r *rig) apply(ops ...store.Op) {
	r.Helper()
	if _, err := r.Apply(ops...); err != nil {
		r.Fatal(err)
	}
	synctest.Wait()
}

// conditions returns "Type Status Reason Message" of each condition of a deployment, and its
// findings.
func (r *rig) conditions(name string) string {
	var out []string
	for _, rep := range r.reported() {
		if rep.Owner.Name == name {
			for _, c := range rep.Conditions {
				out = append(out, strings.Join([]string{c.Type, c.Status, c.Reason, c.Message}, " "))
			}
			for _, f := range rep.Findings {
				out = append(out, f.String())
			}
		}
	}
	return strings.Join(out, "\n")
}

func (r *rig) servers(name string) int {
	m, ok := store.ModelServers.Get(r.world.View(), "default/"+name)
	if !ok {
		return 0
	}
	return len(m.Spec.Servers)
}

const sim = "engine: {name: sim}\nmodel: {name: qwen}\ngatewayRefs: [{name: gw}]\n"

func TestDeployment_AServerIsPickedOnlyWhileReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", sim)
		if _, ok := store.HTTPRoutes.Get(r.world.View(), "default/qwen"); !ok || r.servers("qwen") != 0 {
			t.Errorf("route %v, servers %d; want a route without servers", ok, r.servers("qwen"))
		}
		if got := r.conditions("qwen"); !strings.Contains(got, "Ready False Deploying") {
			t.Error(got)
		}
		r.engines.set("default/qwen/0", running)
		synctest.Wait()
		if got := r.conditions("qwen"); !strings.Contains(got, "Ready True Running") || r.servers("qwen") != 1 {
			t.Error(r.servers("qwen"), got)
		}
		r.engines.set("default/qwen/0", func(s *processes.State) {
			s.Phase, s.PID, s.Reason, s.LastWords = processes.Waiting, 0, "exit status 1", "out of memory"
		})
		synctest.Wait()
		want := "Ready False Failed server 0: exit status 1: out of memory"
		if got := r.conditions("qwen"); !strings.Contains(got, want) || r.servers("qwen") != 0 {
			t.Error(r.servers("qwen"), got)
		}
		r.apply(store.ModelDeployments.Delete("default/qwen"))
		if _, ok := store.InferencePools.Get(r.world.View(), "default/qwen"); ok || len(r.engines.processes()) > 0 ||
			len(r.reported()) > 0 {
			t.Errorf("a deleted deployment leaves %v %v %v", ok, r.engines.processes(), r.reported())
		}
	})
}

func TestDeployment_UsersObjectsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", sim)
		mine := &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "qwen",
			Annotations: map[string]string{"mine": ""}}}
		r.apply(store.InferencePools.Put(mine))
		pool, _ := store.InferencePools.Get(r.world.View(), "default/qwen")
		if pool != mine || !strings.Contains(r.conditions("qwen"), "Accepted False NameConflict") ||
			len(r.engines.processes()) != 1 {
			t.Errorf("pool %v, processes %v: %s", pool, r.engines.processes(), r.conditions("qwen"))
		}
		if _, ok := store.HTTPRoutes.Get(r.world.View(), "default/qwen"); ok {
			t.Error("the deployment routes to the user's pool")
		}
		r.apply(store.InferencePools.Delete("default/qwen"))
		if pool, ok := store.InferencePools.Get(r.world.View(), "default/qwen"); !ok || pool == mine {
			t.Errorf("after the user's pool: %v, want the deployment's", pool)
		}
		r.deploy("another", sim)
		if got := r.conditions("another"); !strings.Contains(got, "ModelDeployment default/qwen serves qwen") {
			t.Error(got)
		}
		if got := r.conditions("qwen"); !strings.Contains(got, "Accepted True") {
			t.Errorf("a later deployment takes the model: %s", got)
		}
	})
}

func TestDeployment_AMistakeKeepsTheLastGoodVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deployments.json")
	var before []processes.Process
	for round := range 2 { // the second round is a new process with the same state file
		synctest.Test(t, func(t *testing.T) {
			r := start(t, file)
			if round == 0 {
				r.deploy("qwen", sim)
				before = r.engines.processes()
			}
			r.deploy("qwen", sim+"variables: {max-num-seq: 16}\n")
			want := "Accepted False Invalid spec.variables.max-num-seq"
			got := r.conditions("qwen")
			if !strings.Contains(got, want) || !strings.Contains(got, "write max-num-seqs") {
				t.Error(got)
			}
			now := r.engines.processes()
			if len(before) != 1 || len(now) != 1 || before[0].Hash() != now[0].Hash() {
				t.Errorf("round %d: %v, want %v", round, r.engines.processes(), before)
			}
		})
	}
}

func TestDeployment_AUsersRouteForItsModelIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", sim)
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
		route.Spec.Rules = []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{{
			Headers: []gatewayv1.HTTPHeaderMatch{{Name: "x-gateway-model-name", Value: "qwen"}}}}}}
		r.apply(store.HTTPRoutes.Put(route))
		const want = "HTTPRoute default/mine matches model qwen at the same Gateway"
		if got := r.conditions("qwen"); !strings.Contains(got, want) {
			t.Error(got)
		}
		other := route.DeepCopy()
		other.Spec.ParentRefs[0].Name = "another"
		r.apply(store.HTTPRoutes.Put(other))
		if got := r.conditions("qwen"); strings.Contains(got, want) {
			t.Errorf("at another Gateway: %s", got)
		}
	})
}

func TestDeployment_ReportsItsURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, "")
		r.deploy("qwen", sim)
		gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}}
		gateway.Spec.Listeners = []gatewayv1.Listener{
			{Name: "http", Port: 8080, Protocol: gatewayv1.HTTPProtocolType}}
		r.apply(store.Gateways.Put(gateway))
		if got := r.conditions("qwen"); !strings.Contains(got, "serviceURL http://localhost:8080/v1") {
			t.Error(got)
		}
	})
}
