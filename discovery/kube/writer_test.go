package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

const controller = "penstock.dev/gateway-controller"

// proxies stands in for what the proxies have.
type proxies struct {
	mu    sync.Mutex
	n     int
	acked int64
}

func (p *proxies) Delivered(_ string, generation int64) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n, p.n > 0 && p.acked >= generation
}

func (p *proxies) set(n int, acked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.acked = n, acked
}

// desk is a rig whose Writer leads.
type desk struct {
	*rig
	board   *status.Board
	proxies *proxies
	writer  *kube.Writer
}

func newDesk(t *testing.T, prepare func(*kubetest.Server)) *desk {
	t.Helper()
	d := &desk{rig: begin(t, prepare).synced(), board: status.NewBoard(nil), proxies: &proxies{}}
	var err error
	d.writer, err = kube.NewWriter(kube.WriterConfig{
		Source: d.source, Reports: d.board, Follow: func() kube.Changes { return d.board.Follow() }, Delivery: d.proxies,
		Controller: controller, Features: []gatewayv1.FeatureName{"Gateway"}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.observe()
	kubetest.Run(t, d.writer.Lead)
	return d
}

// observe is what a translation does that has seen everything.
func (d *desk) observe() {
	view := d.store.View()
	d.writer.Observe(view, store.Everything(view))
}

func ref(kind, name string) report.Ref {
	return report.Ref{Group: gatewayGroup, Kind: kind, Namespace: "default", Name: name}
}

func accepted(status string) []report.Condition {
	return []report.Condition{{Type: "Accepted", Status: status, Reason: "Accepted"}}
}

func parent() report.ParentRef {
	return report.ParentRef{Group: gatewayGroup, Kind: "Gateway", Namespace: "default", Name: "gw"}
}

// status waits until an object's status, as JSON, has all of some texts and none of others (with "!" in front).
func (d *desk) status(resource, id string, texts ...string) string {
	d.Helper()
	var raw []byte
	d.eventually(func() string {
		raw, _ = json.Marshal(d.api.Get(gatewayGroup, resource, id)["status"])
		for _, text := range texts {
			if not, ok := strings.CutPrefix(text, "!"); ok == strings.Contains(string(raw), strings.TrimPrefix(text, "!")) && (ok || !strings.Contains(string(raw), not)) {
				return fmt.Sprintf("%s %s: want %s in %s", resource, id, text, raw)
			}
		}
		return ""
	})
	return string(raw)
}

func TestWhatOtherControllersWroteIsKept(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) {
		r := kubetest.Parse(t, route("a"))
		r["status"] = kubetest.Parse(t, `
parents:
- {parentRef: {name: other}, controllerName: other.example/c, conditions: [{type: Accepted, status: "True", reason: Accepted, message: theirs, lastTransitionTime: "2020-01-01T00:00:00Z"}]}
- {parentRef: {name: old}, controllerName: penstock.dev/gateway-controller, conditions: []}
`)
		api.Put("httproutes", r)
	})
	d.board.Set("translation", report.Report{Owner: ref("HTTPRoute", "a"), Parents: []report.Parent{{Ref: parent(), Conditions: accepted("True")}}})
	got := d.status("httproutes", "default/a", `"theirs"`, `"name":"gw"`, `"observedGeneration":1`, `!"name":"old"`)
	if strings.Contains(got, `"namespace"`) {
		t.Errorf("the parent is not named as the route names it: %s", got)
	}
}

func TestAStatusIsWrittenOnceAndSaysWhichGenerationItIsAbout(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) { api.Apply(t, "httproutes", route("a")) })
	said := report.Report{Owner: ref("HTTPRoute", "a"), Parents: []report.Parent{{Ref: parent(), Conditions: accepted("True")}}}
	d.board.Set("translation", said)
	first := d.status("httproutes", "default/a", `"observedGeneration":1`)
	d.board.Set("translation", said) // nothing new
	changed := kubetest.Parse(t, route("a"))
	changed["spec"].(kubetest.Object)["hostnames"] = []any{"a.example"}
	d.api.Put("httproutes", changed)
	d.eventually(func() string {
		if got, ok := store.HTTPRoutes.Get(d.store.View(), "default/a"); !ok || got.Generation != 2 {
			return "the change did not arrive"
		}
		return ""
	})
	if n := len(d.api.Asked("PATCH")); n != 1 {
		t.Errorf("%d writes before the change was translated, want 1: %q", n, d.api.Asked("PATCH"))
	}
	d.observe()
	second := d.status("httproutes", "default/a", `"observedGeneration":2`)
	since := func(s string) string {
		_, after, _ := strings.Cut(s, `"lastTransitionTime":`)
		return after[:22]
	}
	if since(first) != since(second) {
		t.Errorf("the condition's time moved although its status did not: %s, %s", since(first), since(second))
	}
	if n := len(d.api.Asked("PATCH")); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}

func TestAWriteThatMeetsAnotherIsMadeAgainOnTopOfIt(t *testing.T) {
	var mu sync.Mutex
	conflicts := 3
	d := newDesk(t, func(api *kubetest.Server) {
		api.Apply(t, "httproutes", route("a"))
		api.Fail(func(method, _ string) int {
			mu.Lock()
			defer mu.Unlock()
			if method != http.MethodPatch || conflicts == 0 {
				return 0
			}
			conflicts--
			return http.StatusConflict
		})
	})
	d.board.Set("translation", report.Report{Owner: ref("HTTPRoute", "a"), Parents: []report.Parent{{Ref: parent(), Conditions: accepted("False")}}})
	d.status("httproutes", "default/a", `"False"`)
}

const gatewayYAML = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: default, name: gw}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

const gatewayService = `
apiVersion: v1
kind: Service
metadata: {namespace: default, name: gw-penstock, labels: {gateway.networking.k8s.io/gateway-name: gw}}
spec: {type: LoadBalancer, clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9], ports: [{port: 80}]}
`

func TestAGatewayIsProgrammedWhenItsProxiesSaySoAndItHasAnAddress(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) { api.Apply(t, "gateways", gatewayYAML) })
	programmed := append(accepted("True"), report.Condition{Type: "Programmed", Status: report.True, Reason: "Programmed"})
	d.board.Set("translation", report.Report{Owner: ref("Gateway", "gw"), Conditions: programmed, Addresses: []string{"0.0.0.0"},
		Listeners: []report.Listener{{Name: "http", AttachedRoutes: 3, Conditions: programmed}}})
	d.status("gateways", "default/gw", `"Pending"`, "no proxy is connected", `"attachedRoutes":3`, `!"0.0.0.0"`, `!"reason":"Programmed"`)
	d.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Addresses: []string{"edge.example"}}) // of proxies that somebody else runs
	d.status("gateways", "default/gw", `"edge.example"`, `"Hostname"`, `!"0.0.0.0"`)
	d.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Addresses: []string{"not an address!", "Edge_2", "fe80::1%eth0", "edge2.example"}})
	d.status("gateways", "default/gw", `"edge2.example"`, `!"edge.example"`, `!"not an address!"`, `!"Edge_2"`, `!"fe80`) // one of them would fail the whole status
	d.api.Apply(t, "services", gatewayService)
	d.has(store.Services, "default/gw-penstock", true)
	d.observe()
	d.status("gateways", "default/gw", `"AddressNotAssigned"`)
	service := kubetest.Parse(t, gatewayService)
	service["status"] = kubetest.Parse(t, "loadBalancer: {ingress: [{ip: 192.0.2.1}]}")
	d.api.Put("services", service)
	d.eventually(func() string {
		if s, _ := store.Services.Get(d.store.View(), "default/gw-penstock"); s == nil || len(s.Status.LoadBalancer.Ingress) == 0 {
			return "the address did not arrive"
		}
		return ""
	})
	d.observe()
	d.proxies.set(2, 0)
	d.writer.TouchGateways("default/gw")
	d.status("gateways", "default/gw", `"192.0.2.1"`, `"IPAddress"`, "not acknowledged")
	d.proxies.set(2, 1)
	d.writer.TouchGateways("default/gw")
	d.status("gateways", "default/gw", `"reason":"Programmed"`, `!"Pending"`)
	// All proxies are away for a moment: a process of ours has ended, and they go to another one.
	d.proxies.set(0, 0)
	d.writer.TouchGateways("default/gw")
	changed := kubetest.Parse(t, gatewayYAML)
	changed["spec"].(kubetest.Object)["listeners"] = []any{}
	d.api.Put("gateways", changed)
	d.eventually(func() string {
		if g, _ := store.Gateways.Get(d.store.View(), "default/gw"); g == nil || g.Generation != 2 {
			return "the change did not arrive"
		}
		return ""
	})
	d.observe()
	d.proxies.set(2, 1)
	d.writer.TouchGateways("default/gw")
	// The new generation is accepted; programmed is still the old one.
	d.status("gateways", "default/gw", `"observedGeneration":2`, `"observedGeneration":1`, `!"Pending"`)
	d.proxies.set(2, 2)
	d.writer.TouchGateways("default/gw")
	d.status("gateways", "default/gw", `!"observedGeneration":1`)
}

func TestBehindANodePortTheAddressesAreWhatWhoRunsTheProxiesSays(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) {
		api.Apply(t, "gateways", gatewayYAML)
		api.Apply(t, "services", strings.Replace(gatewayService, "LoadBalancer", "NodePort", 1))
	})
	programmed := append(accepted("True"), report.Condition{Type: "Programmed", Status: report.True, Reason: "Programmed"})
	d.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Conditions: []report.Condition{{Type: "Programmed", Status: report.False, Reason: "Pending"}}})
	d.board.Set("translation", report.Report{Owner: ref("Gateway", "gw"), Conditions: programmed, Addresses: []string{"0.0.0.0"}})
	d.has(store.Services, "default/gw-penstock", true)
	d.observe()
	d.status("gateways", "default/gw", `"Pending"`, `!"10.96.0.9"`, `!"0.0.0.0"`)
	d.proxies.set(1, 1)
	d.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Addresses: []string{"198.51.100.1"}})
	d.status("gateways", "default/gw", `"198.51.100.1"`, `"IPAddress"`, `"reason":"Programmed"`)
	// Another process leads now, and whoever runs the proxies has not looked at them yet.
	d.board.Remove("supervisor", ref("Gateway", "gw"))
	d.board.Set("translation", report.Report{Owner: ref("Gateway", "gw"), Conditions: accepted("False"), Addresses: []string{"0.0.0.0"}})
	d.status("gateways", "default/gw", `"198.51.100.1"`, `"status":"False"`)
}

func TestAnAddressThatWasRefusedDoesNotStandInTheStatus(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) {
		gw := kubetest.Parse(t, gatewayYAML)
		gw["spec"].(kubetest.Object)["addresses"] = []any{kubetest.Object{"value": "192.0.2.1"}, kubetest.Object{"type": "Hostname", "value": "mine.example"}}
		api.Put("gateways", gw)
	})
	said := report.Report{Owner: ref("Gateway", "gw"), Conditions: accepted("True")}
	d.board.Set("translation", said)
	d.status("gateways", "default/gw", `"192.0.2.1"`, `!"mine.example"`)
	said.Conditions = accepted("False")
	d.board.Set("translation", said)
	d.status("gateways", "default/gw", `"False"`, `!"192.0.2.1"`, `!"mine.example"`)
}

func TestAListenerSetIsProgrammedWhenItsGatewaysProxiesHaveIt(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) {
		api.Install(gatewayGroup, "listenersets", "v1")
		api.Apply(t, "gateways", gatewayYAML)
		api.Apply(t, "listenersets", `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: default, name: more}
spec: {parentRef: {name: gw}, listeners: [{name: more, port: 8080, protocol: HTTP}]}
`)
	})
	programmed := append(accepted("True"), report.Condition{Type: "Programmed", Status: report.True, Reason: "Programmed"})
	d.board.Set("translation", report.Report{Owner: ref("ListenerSet", "more"), Conditions: programmed, Listeners: []report.Listener{{Name: "more", Conditions: programmed}}})
	d.proxies.set(1, 0)
	d.writer.TouchGateways("default/gw")
	d.status("listenersets", "default/more", `"Pending"`, "not acknowledged", `!"reason":"Programmed"`)
	d.proxies.set(1, 1)
	d.writer.TouchGateways("default/gw")
	d.status("listenersets", "default/more", `"reason":"Programmed"`, `!"Pending"`)
}

func TestAThousandRoutesAreFewWritesToTheirGateway(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) { api.Apply(t, "gateways", gatewayYAML) })
	d.proxies.set(1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range int32(1000) {
		d.board.Set("translation", report.Report{Owner: ref("Gateway", "gw"), Conditions: accepted("True"), Listeners: []report.Listener{{Name: "http", AttachedRoutes: n + 1, Conditions: accepted("True")}}})
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("out of time")
		}
	}
	d.status("gateways", "default/gw", `"attachedRoutes":1000`)
	if n := len(d.api.Asked("PATCH")); n > 20 {
		t.Errorf("%d writes to the Gateway", n)
	}
}

func TestAClassThatGatewaysNameDoesNotGoBeforeTheLastOfThem(t *testing.T) {
	const class = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: %s, finalizers: [example.com/theirs]}
spec: {controllerName: %s}
`
	mine, theirs := fmt.Sprintf(class, "penstock", controller), fmt.Sprintf(class, "other", "example.com/other")
	other := strings.Replace(strings.Replace(gatewayYAML, "name: gw", "name: other", 1), "gatewayClassName: penstock", "gatewayClassName: other", 1)
	d := newDesk(t, func(api *kubetest.Server) {
		api.Apply(t, "gatewayclasses", mine)
		api.Apply(t, "gatewayclasses", theirs)
		api.Apply(t, "gateways", other)
	})
	finalizers := func(want string) {
		t.Helper()
		d.eventually(func() string {
			got := d.api.Get(gatewayGroup, "gatewayclasses", "penstock")
			if got == nil {
				return "the class is gone"
			}
			if list := fmt.Sprint(got["metadata"].(kubetest.Object)["finalizers"]); list != want {
				return fmt.Sprintf("finalizers %s, want %s", list, want)
			}
			return ""
		})
	}
	d.api.Apply(t, "gateways", gatewayYAML)
	d.has(store.Gateways, "default/gw", true)
	d.observe()
	finalizers("[example.com/theirs gateway-exists-finalizer.gateway.networking.k8s.io]")
	d.api.Delete("gatewayclasses", kubetest.Parse(t, mine))
	d.api.Delete("gateways", kubetest.Parse(t, gatewayYAML))
	d.has(store.Gateways, "default/gw", false)
	d.writer.Observe(d.store.View(), []store.Change{{Table: "Gateway", ID: "default/gw", Keys: []store.IndexKey{{Index: store.ByClass, Key: "penstock"}}}})
	finalizers("[example.com/theirs]") // on its way out, and held by somebody else still
	if list := d.api.Get(gatewayGroup, "gatewayclasses", "other")["metadata"].(kubetest.Object)["finalizers"]; fmt.Sprint(list) != "[example.com/theirs]" {
		t.Errorf("the class of another controller: %v", list)
	}
}

func TestAClassSaysWhenAReleaseIsInstalledThatWeDoNotKnow(t *testing.T) {
	d := newDesk(t, func(api *kubetest.Server) {
		api.Apply(t, "gatewayclasses", "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: penstock}, spec: {controllerName: "+controller+"}}")
	})
	d.board.Set("translation", report.Report{Owner: report.Ref{Group: gatewayGroup, Kind: "GatewayClass", Name: "penstock"}, Conditions: accepted("True")})
	d.status("gatewayclasses", "penstock", `"SupportedVersion"`, `!"UnsupportedVersion"`)
	release := func(annotations kubetest.Object) {
		t.Helper()
		crd := d.api.Get("apiextensions.k8s.io", "customresourcedefinitions", "httproutes."+gatewayGroup)
		crd["metadata"].(kubetest.Object)["annotations"] = annotations
		d.api.Put("customresourcedefinitions", crd)
	}
	const key = "gateway.networking.k8s.io/bundle-version"
	for version, words := range map[string]string{"v1.99.0": "httproutes is of release v1.99.0", "v1.0.0": "httproutes is of release v1.0.0", "v2.0.0": "of release v2.0.0", "mine": "of release mine"} {
		release(kubetest.Object{key: version})
		d.status("gatewayclasses", "penstock", `"UnsupportedVersion"`, words)
	}
	release(nil)
	d.status("gatewayclasses", "penstock", `"UnsupportedVersion"`, "httproutes does not say its release")
	release(kubetest.Object{key: "v1.1.0"})
	d.status("gatewayclasses", "penstock", `!"UnsupportedVersion"`)
}
