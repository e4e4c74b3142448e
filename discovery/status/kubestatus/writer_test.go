package kubestatus_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/kubestatus"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

const controller = "penstock.dev/gateway-controller"

type proxies struct {
	mu    sync.Mutex
	n     int
	acked int64
	bug   string // the gateway for which Delivered panics
}

func (p *proxies) Delivered(gateway string, generation int64) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gateway == p.bug {
		panic("a bug")
	}
	return p.n, p.n > 0 && p.acked >= generation
}

func (p *proxies) fail(gateway string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bug = gateway
}

func (p *proxies) set(n int, acked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.acked = n, acked
}

// rig is a Writer that leads, with a Source that follows a small API server.
type rig struct {
	*kubetest.Rig
	board   *status.Board
	proxies *proxies
	writer  *kubestatus.Writer
	panics  chan string // objects whose write panicked
}

// newRig makes a rig, and waits until its Source has read all objects. prepare may install CRDs and
// create objects before that.
func newRig(t *testing.T, prepare func(*kubetest.Server)) *rig {
	t.Helper()
	r := &rig{Rig: kubetest.Follow(t, prepare).Synced(), board: status.NewBoard(nil), proxies: &proxies{},
		panics: make(chan string, 100)}
	var err error
	r.writer, err = kubestatus.New(kubestatus.Config{
		Source: r.Source, Store: r.Store, Board: r.board, Delivery: r.proxies,
		Controller: controller, Features: []gatewayv1.FeatureName{"Gateway"}, Log: slog.New(slog.DiscardHandler),
		OnPanic: func(object string, _ any, _ []byte) { r.panics <- object },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.observe()
	kubetest.Run(t, r.writer.Lead)
	return r
}

func (r *rig) observe() {
	view := r.Store.View()
	r.writer.Observe(view, store.Everything(view))
}

func ref(kind, name string) report.Ref {
	return report.Ref{Group: kubetest.GatewayGroup, Kind: kind, Namespace: "default", Name: name}
}

func accepted(status string) []report.Condition {
	return []report.Condition{{Type: "Accepted", Status: status, Reason: "Accepted"}}
}

func parent() report.ParentRef {
	return report.ParentRef{Group: kubetest.GatewayGroup, Kind: "Gateway", Namespace: "default", Name: "gw"}
}

// status waits until an object's status, as JSON, contains each text, and no text that follows a
// "!". It returns the JSON.
func (r *rig) status(resource, id string, texts ...string) string {
	r.Helper()
	var raw []byte
	r.Eventually(func() string {
		raw, _ = json.Marshal(r.API.Get(kubetest.GatewayGroup, resource, id)["status"])
		for _, text := range texts {
			if not, ok := strings.CutPrefix(text, "!"); ok == strings.Contains(string(raw),
				strings.TrimPrefix(text, "!")) && (ok || !strings.Contains(string(raw), not)) {
				return fmt.Sprintf("%s %s: want %s in %s", resource, id, text, raw)
			}
		}
		return ""
	})
	return string(raw)
}

func TestRouteStatus_KeepsEntriesOfOtherControllers(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		obj := kubetest.Parse(t, kubetest.Route("a"))
		obj["status"] = kubetest.Parse(t, `
parents:
- {parentRef: {name: other}, controllerName: other.example/c, conditions: [{type: Accepted, status: "True", reason: Accepted, message: theirs, lastTransitionTime: "2020-01-01T00:00:00Z"}]}
- {parentRef: {name: old}, controllerName: penstock.dev/gateway-controller, conditions: []}
`)
		api.Put("httproutes", obj)
	})
	r.board.Set("translation",
		report.Report{Owner: ref("HTTPRoute", "a"),
			Parents: []report.Parent{{Ref: parent(), Conditions: accepted("True")}}})
	got := r.status("httproutes", "default/a", `"theirs"`, `"name":"gw"`, `"observedGeneration":1`, `!"name":"old"`)
	if strings.Contains(got, `"namespace"`) {
		t.Errorf("got %s, want the parent as the route names it, without a namespace", got)
	}
}

func TestStatusPatch_IsSentOncePerGeneration(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) { api.Apply(t, "httproutes", kubetest.Route("a")) })
	rep := report.Report{Owner: ref("HTTPRoute", "a"),
		Parents: []report.Parent{{Ref: parent(), Conditions: accepted("True")}}}
	r.board.Set("translation", rep)
	first := r.status("httproutes", "default/a", `"observedGeneration":1`)
	r.board.Set("translation", rep) // the same report again
	changed := kubetest.Parse(t, kubetest.Route("a"))
	changed["spec"].(kubetest.Object)["hostnames"] = []any{"a.example"}
	r.API.Put("httproutes", changed)
	r.Eventually(func() string {
		if got, ok := store.HTTPRoutes.Get(r.Store.View(), "default/a"); !ok || got.Generation != 2 {
			return "the change is not in the store"
		}
		return ""
	})
	if n := len(r.API.Asked("PATCH")); n != 1 {
		t.Errorf("%d writes before the change was translated, want 1: %q", n, r.API.Asked("PATCH"))
	}
	r.observe()
	second := r.status("httproutes", "default/a", `"observedGeneration":2`)
	since := func(s string) string {
		_, after, _ := strings.Cut(s, `"lastTransitionTime":`)
		return after[:22]
	}
	if since(first) != since(second) {
		t.Errorf("lastTransitionTime moved although the status did not: %s, %s; want the same",
			since(first), since(second))
	}
	if n := len(r.API.Asked("PATCH")); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}

func TestStatusPatch_ConflictIsRetriedOnTheNewVersion(t *testing.T) {
	var mu sync.Mutex
	conflicts := 3
	r := newRig(t, func(api *kubetest.Server) {
		api.Apply(t, "httproutes", kubetest.Route("a"))
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
	r.board.Set("translation",
		report.Report{Owner: ref("HTTPRoute", "a"),
			Parents: []report.Parent{{Ref: parent(), Conditions: accepted("False")}}})
	r.status("httproutes", "default/a", `"False"`)
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

func TestProgrammed_NeedsAnAddressAndTheProxiesACK(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) { api.Apply(t, "gateways", gatewayYAML) })
	programmed := append(accepted("True"), report.Condition{
		Type: "Programmed", Status: report.True, Reason: "Programmed",
	})
	r.board.Set("translation",
		report.Report{Owner: ref("Gateway", "gw"), Conditions: programmed, Addresses: []string{"0.0.0.0"},
			Listeners: []report.Listener{{Name: "http", AttachedRoutes: 3, Conditions: programmed}}})
	r.status("gateways", "default/gw", `"Pending"`, "no proxy is connected", `"attachedRoutes":3`, `!"0.0.0.0"`,
		`!"reason":"Programmed"`)
	// The Gateway's proxies are external, and have these addresses.
	r.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Addresses: []string{"edge.example"}})
	r.status("gateways", "default/gw", `"edge.example"`, `"Hostname"`, `!"0.0.0.0"`)
	r.board.Set("supervisor",
		report.Report{Owner: ref("Gateway", "gw"),
			Addresses: []string{"not an address!", "Edge_2", "fe80::1%eth0", "edge2.example"}})
	// Invalid addresses are omitted, because the API server would reject the whole status.
	r.status("gateways", "default/gw", `"edge2.example"`, `!"edge.example"`, `!"not an address!"`, `!"Edge_2"`,
		`!"fe80`)
	r.API.Apply(t, "services", gatewayService)
	r.Has(store.Services, "default/gw-penstock", true)
	r.observe()
	r.status("gateways", "default/gw", `"AddressNotAssigned"`)
	service := kubetest.Parse(t, gatewayService)
	service["status"] = kubetest.Parse(t, "loadBalancer: {ingress: [{ip: 192.0.2.1}]}")
	r.API.Put("services", service)
	r.Eventually(func() string {
		if s, _ := store.Services.Get(r.Store.View(), "default/gw-penstock"); s == nil ||
			len(s.Status.LoadBalancer.Ingress) == 0 {
			return "the address is not in the store"
		}
		return ""
	})
	r.observe()
	r.proxies.set(2, 0)
	r.writer.DeliveryChanged("default/gw")
	r.status("gateways", "default/gw", `"192.0.2.1"`, `"IPAddress"`, "not acknowledged")
	r.proxies.set(2, 1)
	r.writer.DeliveryChanged("default/gw")
	r.status("gateways", "default/gw", `"reason":"Programmed"`, `!"Pending"`)
	// All proxies disconnect for a moment: their penstock process ended, and they reconnect to
	// another process.
	r.proxies.set(0, 0)
	r.writer.DeliveryChanged("default/gw")
	changed := kubetest.Parse(t, gatewayYAML)
	changed["spec"].(kubetest.Object)["listeners"] = []any{}
	r.API.Put("gateways", changed)
	r.Eventually(func() string {
		if g, _ := store.Gateways.Get(r.Store.View(), "default/gw"); g == nil || g.Generation != 2 {
			return "the change is not in the store"
		}
		return ""
	})
	r.observe()
	r.proxies.set(2, 1)
	r.writer.DeliveryChanged("default/gw")
	// The new generation is accepted, and the old one is still programmed.
	r.status("gateways", "default/gw", `"observedGeneration":2`, `"observedGeneration":1`, `!"Pending"`)
	r.proxies.set(2, 2)
	r.writer.DeliveryChanged("default/gw")
	r.status("gateways", "default/gw", `!"observedGeneration":1`)
}

func TestGatewayAddresses_OfANodePortAreItsNodes(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		api.Apply(t, "gateways", gatewayYAML)
		api.Apply(t, "services", strings.Replace(gatewayService, "LoadBalancer", "NodePort", 1))
	})
	programmed := append(accepted("True"), report.Condition{
		Type: "Programmed", Status: report.True, Reason: "Programmed",
	})
	r.board.Set("supervisor",
		report.Report{Owner: ref("Gateway", "gw"),
			Conditions: []report.Condition{{Type: "Programmed", Status: report.False, Reason: "Pending"}}})
	r.board.Set("translation",
		report.Report{Owner: ref("Gateway", "gw"), Conditions: programmed, Addresses: []string{"0.0.0.0"}})
	r.Has(store.Services, "default/gw-penstock", true)
	r.observe()
	r.status("gateways", "default/gw", `"Pending"`, `!"10.96.0.9"`, `!"0.0.0.0"`)
	r.proxies.set(1, 1)
	r.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Addresses: []string{"198.51.100.1"}})
	r.status("gateways", "default/gw", `"198.51.100.1"`, `"IPAddress"`, `"reason":"Programmed"`)
	// Another process becomes the leader. xds/fleet has not reported addresses there yet.
	r.board.Remove("supervisor", ref("Gateway", "gw"))
	r.board.Set("translation",
		report.Report{Owner: ref("Gateway", "gw"), Conditions: accepted("False"), Addresses: []string{"0.0.0.0"}})
	r.status("gateways", "default/gw", `"198.51.100.1"`, `"status":"False"`)
}

// Other clusters send requests to the address of a Gateway's Service or nodes. The Service may
// expose the proxies' port as another port.
func TestGatewayAddresses_HaveThePortsOfOtherClustersRequests(t *testing.T) {
	for _, c := range []struct {
		name, service, want string
		port                uint16 // the expected port for port 80 of the proxies
	}{
		{"no Service", "", "[192.0.2.9]", 80},
		{"a load balancer", "{type: LoadBalancer, ports: [{port: 80}]}", "[192.0.2.1]", 80},
		{
			"another port of it",
			"{type: LoadBalancer, ports: [{port: 443, targetPort: 8443}, {port: 8080, targetPort: 80}]}", "[192.0.2.1]",
			8080,
		},
		{"no port yet", "{type: LoadBalancer, ports: [{port: 443}]}", "[192.0.2.1]", 0},
		{
			"nodes",
			"{type: NodePort, clusterIP: 10.96.0.9, ports: [{port: 443, nodePort: 30001}, {port: 80, " +
				"nodePort: 30002}]}", "[192.0.2.9]", 30002,
		},
		{
			"a NodePort whose nodes are not known",
			"{type: NodePort, clusterIP: 10.96.0.9, ports: [{port: 80, nodePort: 30002}]}", "[10.96.0.9]", 80,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, func(api *kubetest.Server) {
				api.Apply(t, "gateways", gatewayYAML)
				if c.service != "" {
					svc := kubetest.Parse(t, gatewayService)
					svc["spec"], svc["status"] = kubetest.Parse(t, c.service),
						kubetest.Parse(t, "loadBalancer: {ingress: [{ip: 192.0.2.1}]}")
					api.Put("services", svc)
				}
			})
			if c.service != "" {
				r.Has(store.Services, "default/gw-penstock", true)
			}
			if c.want == "[192.0.2.9]" {
				r.board.Set("supervisor", report.Report{Owner: ref("Gateway", "gw"), Addresses: []string{"192.0.2.9"}})
			}
			addresses, port := r.writer.Reached(r.Store.View(), ref("Gateway", "gw"))
			if got := fmt.Sprint(addresses); got != c.want || port(80) != c.port {
				t.Errorf("%s, port %d; want %s, port %d", got, port(80), c.want, c.port)
			}
		})
	}
}

func TestGatewayAddresses_OmitWhatIsNotAccepted(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		gw := kubetest.Parse(t, gatewayYAML)
		gw["spec"].(kubetest.Object)["addresses"] = []any{
			kubetest.Object{"value": "192.0.2.1"}, kubetest.Object{"type": "Hostname", "value": "mine.example"},
		}
		api.Put("gateways", gw)
	})
	rep := report.Report{Owner: ref("Gateway", "gw"), Conditions: accepted("True")}
	r.board.Set("translation", rep)
	r.status("gateways", "default/gw", `"192.0.2.1"`, `!"mine.example"`)
	rep.Conditions = accepted("False")
	r.board.Set("translation", rep)
	r.status("gateways", "default/gw", `"False"`, `!"192.0.2.1"`, `!"mine.example"`)
}

func TestListenerSet_IsProgrammedOnceItsGatewaysProxiesHaveIt(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		api.Install(kubetest.GatewayGroup, "listenersets", "v1")
		api.Apply(t, "gateways", gatewayYAML)
		api.Apply(t, "listenersets", `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: default, name: more}
spec: {parentRef: {name: gw}, listeners: [{name: more, port: 8080, protocol: HTTP}]}
`)
	})
	programmed := append(accepted("True"), report.Condition{
		Type: "Programmed", Status: report.True, Reason: "Programmed",
	})
	r.board.Set("translation",
		report.Report{Owner: ref("ListenerSet", "more"), Conditions: programmed,
			Listeners: []report.Listener{{Name: "more", Conditions: programmed}}})
	r.proxies.set(1, 0)
	r.writer.DeliveryChanged("default/gw")
	r.status("listenersets", "default/more", `"Pending"`, "not acknowledged", `!"reason":"Programmed"`)
	r.proxies.set(1, 1)
	r.writer.DeliveryChanged("default/gw")
	r.status("listenersets", "default/more", `"reason":"Programmed"`, `!"Pending"`)
}

// A policy is programmed only once all proxies of its Gateways have it. Until then, requests may
// pass without the policy.
func TestAccessPolicy_IsProgrammedOnceItsGatewaysProxiesHaveIt(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		api.Install(store.AccessPolicies.Group(), "accesspolicies", "v1alpha1")
		api.Apply(t, "gateways", gatewayYAML)
		api.Apply(t, "accesspolicies", `
apiVersion: penstock.dev/v1alpha1
kind: AccessPolicy
metadata: {namespace: default, name: clients}
spec: {targetRefs: [{kind: Gateway, name: gw}], apiKeys: {}}
status: {observedGeneration: -1}
`)
	})
	policy := store.RefOf(store.AccessPolicies, "default/clients")
	r.board.Set("translation", report.Report{Owner: policy, Conditions: accepted("True"),
		Parents: []report.Parent{{Ref: parent(), Conditions: append(accepted("True"), report.Condition{
			Type: "Programmed", Status: report.True, Reason: "Programmed"})}}})
	expect := func(texts ...string) {
		t.Helper()
		r.Eventually(func() string {
			raw, _ := json.Marshal(r.API.Get(policy.Group, "accesspolicies", "default/clients")["status"])
			for _, text := range texts {
				not, ok := strings.CutPrefix(text, "!")
				if strings.Contains(string(raw), not) == ok {
					return fmt.Sprintf("want %s in %s", text, raw)
				}
			}
			return ""
		})
	}
	r.proxies.set(1, 0)
	r.writer.DeliveryChanged("default/gw")
	expect(`"Pending"`, "not acknowledged", `!"reason":"Programmed"`, `!"Stalled"`)
	r.proxies.set(1, 1)
	r.writer.DeliveryChanged("default/gw")
	expect(`"reason":"Programmed"`, `!"Pending"`, `!"Stalled"`)
}

func TestStatusPatch_BurstIsFewWritesToAGateway(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) { api.Apply(t, "gateways", gatewayYAML) })
	r.proxies.set(1, 1)
	for n := range int32(1000) {
		r.board.Set("translation",
			report.Report{Owner: ref("Gateway", "gw"), Conditions: accepted("True"),
				Listeners: []report.Listener{{Name: "http", AttachedRoutes: n + 1, Conditions: accepted("True")}}})
	}
	r.status("gateways", "default/gw", `"attachedRoutes":1000`)
	if n := len(r.API.Asked("PATCH")); n > 20 {
		t.Errorf("%d writes to the Gateway, want at most 20", n)
	}
}

func TestFinalizer_KeepsAGatewayClassUntilItsLastGatewayIsGone(t *testing.T) {
	const class = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: %s, finalizers: [example.com/theirs]}
spec: {controllerName: %s}
`
	mine, theirs := fmt.Sprintf(class, "penstock", controller), fmt.Sprintf(class, "other", "example.com/other")
	other := strings.Replace(strings.Replace(gatewayYAML, "name: gw", "name: other", 1), "gatewayClassName: penstock",
		"gatewayClassName: other", 1)
	r := newRig(t, func(api *kubetest.Server) {
		api.Apply(t, "gatewayclasses", mine)
		api.Apply(t, "gatewayclasses", theirs)
		api.Apply(t, "gateways", other)
	})
	finalizers := func(want string) {
		t.Helper()
		r.Eventually(func() string {
			got := r.API.Get(kubetest.GatewayGroup, "gatewayclasses", "penstock")
			if got == nil {
				return "the class is gone"
			}
			if list := fmt.Sprint(got["metadata"].(kubetest.Object)["finalizers"]); list != want {
				return fmt.Sprintf("finalizers %s, want %s", list, want)
			}
			return ""
		})
	}
	r.API.Apply(t, "gateways", gatewayYAML)
	r.Has(store.Gateways, "default/gw", true)
	r.observe()
	finalizers("[example.com/theirs gateway-exists-finalizer.gateway.networking.k8s.io]")
	r.API.Delete("gatewayclasses", kubetest.Parse(t, mine))
	r.API.Delete("gateways", kubetest.Parse(t, gatewayYAML))
	r.Has(store.Gateways, "default/gw", false)
	r.writer.Observe(r.Store.View(), []store.Change{
		{Table: "Gateway", ID: "default/gw", Keys: []store.IndexKey{{Index: store.ByClass, Key: "penstock"}}},
	})
	finalizers("[example.com/theirs]") // another finalizer delays the deletion of the class
	if list := r.API.Get(kubetest.GatewayGroup, "gatewayclasses",
		"other")["metadata"].(kubetest.Object)["finalizers"]; fmt.Sprint(list) != "[example.com/theirs]" {
		t.Errorf("the class of another controller: got finalizers %v, want [example.com/theirs]", list)
	}
}

func TestGatewayClass_ReportsAnUnsupportedRelease(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		api.Apply(t, "gatewayclasses",
			"{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: penstock}, spec: "+
				"{controllerName: "+controller+"}}")
	})
	r.board.Set("translation",
		report.Report{Owner: report.Ref{Group: kubetest.GatewayGroup, Kind: "GatewayClass", Name: "penstock"},
			Conditions: accepted("True")})
	r.status("gatewayclasses", "penstock", `"SupportedVersion"`, `!"UnsupportedVersion"`)
	release := func(annotations kubetest.Object) {
		t.Helper()
		crd := r.API.Get("apiextensions.k8s.io", "customresourcedefinitions", "httproutes."+kubetest.GatewayGroup)
		crd["metadata"].(kubetest.Object)["annotations"] = annotations
		r.API.Put("customresourcedefinitions", crd)
	}
	const key = "gateway.networking.k8s.io/bundle-version"
	for version, words := range map[string]string{
		"v1.99.0": "httproutes is of release v1.99.0", "v1.0.0": "httproutes is of release v1.0.0",
		"v2.0.0": "of release v2.0.0", "mine": "of release mine",
	} {
		release(kubetest.Object{key: version})
		r.status("gatewayclasses", "penstock", `"UnsupportedVersion"`, words)
	}
	release(nil)
	r.status("gatewayclasses", "penstock", `"UnsupportedVersion"`, "httproutes does not name its release")
	release(kubetest.Object{key: "v1.1.0"})
	r.status("gatewayclasses", "penstock", `!"UnsupportedVersion"`)
}

const formerPool = `{apiVersion: inference.networking.x-k8s.io/v1alpha2, kind: InferencePool, metadata: {namespace: default, name: chat}, spec: {
  selector: {app: chat}, targetPortNumber: 8000, extensionRef: {name: epp, failureMode: FailOpen}},
  status: {parent: [{parentRef: {kind: Gateway, name: theirs}, conditions: [{type: Accepted, status: "True", reason: Theirs, message: "", lastTransitionTime: "2020-01-01T00:00:00Z"}]}]}}`

func TestInferencePool_FormerGroupGetsItsStatus(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		api.Install(inferenceapi.Group, "inferencepools", "v1alpha2")
		api.Apply(t, "inferencepools", formerPool)
	})
	pool := report.Ref{Group: store.InferencePools.Group(), Kind: "InferencePool", Namespace: "default", Name: "chat"}
	r.board.Set("translation",
		report.Report{Owner: pool, Parents: []report.Parent{{Ref: parent(), Conditions: accepted("True")}}})
	r.Eventually(func() string {
		raw, _ := json.Marshal(r.API.Get(inferenceapi.Group, "inferencepools", "default/chat")["status"])
		for _, text := range []string{`"reason":"Theirs"`, `"name":"gw"`, `"reason":"Accepted"`} {
			if !strings.Contains(string(raw), text) {
				return "want " + text + " in " + string(raw)
			}
		}
		return ""
	})
}

func TestPanic_OfAStatusLeavesOtherObjectsTheirs(t *testing.T) {
	r := newRig(t, func(api *kubetest.Server) {
		api.Apply(t, "gateways", gatewayYAML)
		api.Apply(t, "gateways", strings.Replace(gatewayYAML, "name: gw", "name: other", 1))
	})
	r.proxies.fail("default/gw")
	for n := range int32(10) { // more panics than workers
		for _, name := range []string{"gw", "other"} {
			r.board.Set("translation", report.Report{
				Owner: ref("Gateway", name), Conditions: accepted("True"),
				Listeners: []report.Listener{{Name: "http", AttachedRoutes: n + 1, Conditions: accepted("True")}},
			})
		}
		r.status("gateways", "default/other", fmt.Sprintf(`"attachedRoutes":%d`, n+1))
	}
	if object := <-r.panics; !strings.Contains(object, "default/gw") {
		t.Errorf(`the panic is reported for %s, want a text with "default/gw"`, object)
	}
	r.proxies.fail("")
	r.status("gateways", "default/gw", `"attachedRoutes":10`)
}
