package kube_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

func TestReflector_NothingIsStoredBeforeEveryKindWasListed(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "httproutes", kubetest.Route("a"))
		api.Apply(t, "httproutes", kubetest.Route("b"))
		api.Fail(func(_, path string) int {
			if strings.HasSuffix(path, "/services") {
				return http.StatusForbidden
			}
			return 0
		})
	})
	r.Eventually(func() string {
		if text := r.Reports(); !strings.Contains(text, "Service cannot be read") {
			return "no report that Services cannot be read: " + text
		}
		return ""
	})
	if n := r.Store.View().Revision(); n != 0 {
		t.Errorf("revision %d although Services were never read, want 0", n)
	}
	if !r.Source.Lagging() {
		t.Error("the source does not report that it lags")
	}
	r.API.Fail(nil)
	r.synced()
	view := r.Store.View()
	if n := view.Revision(); n != 1 {
		t.Errorf("the first sync made %d revisions, want 1", n)
	}
	if n := len(store.HTTPRoutes.All(view)); n != 2 {
		t.Errorf("%d routes, want 2", n)
	}
	r.Eventually(func() string {
		if r.Source.Lagging() {
			return "the source reports that it lags"
		}
		return ""
	})
}

func TestReflector_UnusedFieldsAreTrimmed(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) { api.Apply(t, "httproutes", kubetest.Route("a")) }).synced()
	r.API.Apply(t, "httproutes", kubetest.Route("b")) // this route arrives by the watch, not in a list
	r.Has(store.HTTPRoutes, "default/b", true)
	for _, name := range []string{"a", "b"} {
		lean(t, r.Store.View(), name)
	}
}

func lean(t *testing.T, view *store.View, name string) {
	t.Helper()
	a, _ := store.HTTPRoutes.Get(view, "default/"+name)
	if len(a.ManagedFields) > 0 || a.ResourceVersion != "" || len(a.Annotations) != 1 || a.Annotations["mine"] != "1" {
		t.Errorf("metadata: got %+v, want the annotation mine alone, no managed fields and no version", a.ObjectMeta)
	}
	if a.APIVersion != "gateway.networking.k8s.io/v1" || a.Kind != "HTTPRoute" || a.Generation != 1 {
		t.Errorf(`%s %s generation %d, want "gateway.networking.k8s.io/v1", "HTTPRoute", 1`,
			a.APIVersion, a.Kind, a.Generation)
	}
}

func TestGRPCRoute_CRDInstalledLaterIsRead(t *testing.T) {
	r := begin(t, nil).synced()
	r.Eventually(func() string {
		if text := r.Reports(); !strings.Contains(text, "kind GRPCRoute (gateway.networking.k8s.io) is not installed") {
			return "no report that GRPCRoutes are not installed: " + text
		}
		return ""
	})
	object := func(version string) kubetest.Object {
		return kubetest.Parse(t, "{apiVersion: gateway.networking.k8s.io/"+version+
			", kind: GRPCRoute, metadata: {namespace: default, name: g}, spec: {parentRefs: [{name: gw}]}}")
	}
	// An old release of the CRD serves only an old version. The object is converted to the new
	// version.
	r.API.Put("grpcroutes", object("v1alpha2"))
	r.API.Install(kubetest.GatewayGroup, "grpcroutes", "v1alpha2")
	r.Has(store.GRPCRoutes, "default/g", true)
	// An upgrade of the CRD must not remove the object, not even for a moment.
	r.API.Put("grpcroutes", object("v1"))
	sub := r.Store.Subscribe()
	defer sub.Close()
	sub.Pending() // discards the initial objects
	r.API.Install(kubetest.GatewayGroup, "grpcroutes", "v1", "v1alpha2")
	r.Eventually(func() string {
		if len(r.API.Asked("/apis/gateway.networking.k8s.io/v1/grpcroutes?")) == 0 {
			return "v1 is not read"
		}
		return ""
	})
	r.API.Put("grpcroutes",
		kubetest.Parse(t,
			"{apiVersion: gateway.networking.k8s.io/v1, kind: GRPCRoute, metadata: {namespace: default, name: "+
				"h}, spec: {}}"))
	r.Has(store.GRPCRoutes, "default/h", true)
	revisions, _ := sub.Pending()
	for _, rev := range revisions {
		for _, c := range rev.Changes {
			if c.Deleted {
				t.Errorf("%s %s was gone during the upgrade, want it to stay", c.Table, c.ID)
			}
		}
	}
	r.API.Uninstall(kubetest.GatewayGroup, "grpcroutes")
	r.Has(store.GRPCRoutes, "default/g", false)
}

func TestWatch_BrokenWatchRemovesNothingThatExists(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "httproutes", kubetest.Route("stays"))
		api.Apply(t, "httproutes", kubetest.Route("goes"))
	}).synced()
	before := r.Store.View().Revision()
	r.API.Fail(func(string, string) int { return http.StatusInternalServerError })
	r.API.Cut()
	r.Eventually(func() string {
		if !r.Source.Lagging() {
			return "the source does not notice that its watches are broken"
		}
		return ""
	})
	if now := r.Store.View().Revision(); now != before {
		t.Errorf("revision %d became %d while nothing could be read, want no change", before, now)
	}
	r.API.Delete("httproutes", kubetest.Parse(t, kubetest.Route("goes")))
	r.API.Fail(nil)
	r.Has(store.HTTPRoutes, "default/goes", false)
	r.Has(store.HTTPRoutes, "default/stays", true)
	if now := r.Store.View().Revision(); now != before+1 {
		t.Errorf("%d revisions for one object that is gone, want 1", now-before)
	}
}

// From the end of a watch until the next watch is up to date, Lagging must return true, because the
// store may be out of date.
func TestWatch_EndedWatchLagsUntilTheNextOne(t *testing.T) {
	r := begin(t, nil).synced()
	answer := make(chan struct{})
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release)
	r.API.Fail(func(string, string) int {
		<-answer
		return 0
	})
	r.API.Cut() // the API server does not respond, so no read fails
	r.Eventually(func() string {
		if !r.Source.Lagging() {
			return "all watches have ended, and the source does not lag"
		}
		return ""
	})
	if text := r.Reports(); strings.Contains(text, "cannot be read") {
		t.Errorf("the end of a watch is reported, want no report: %s", text)
	}
	release()
	r.Eventually(func() string {
		if r.Source.Lagging() {
			return "the source lags although all watches are established again"
		}
		return ""
	})
}

func TestReflector_WrittenStatusDoesNotChangeStore(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) { api.Apply(t, "httproutes", kubetest.Route("a")) }).synced()
	sub := r.Store.Subscribe()
	defer sub.Close()
	sub.Pending() // discards the initial objects
	withStatus := kubetest.Parse(t, kubetest.Route("a"))
	withStatus["status"] = kubetest.Object{"parents": []any{}}
	r.API.Put("httproutes", withStatus)
	r.API.Apply(t, "httproutes", kubetest.Route("b")) // this route arrives after the deletion
	r.Has(store.HTTPRoutes, "default/b", true)
	revisions, _ := sub.Pending()
	for _, rev := range revisions {
		for _, c := range rev.Changes {
			if c.ID != "default/b" {
				got, _ := store.HTTPRoutes.Get(r.Store.View(), c.ID)
				t.Errorf("revision %d changed %s %s, want default/b alone: it is %+v", rev.N, c.Table, c.ID, got)
			}
		}
	}
}

const slice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: default, name: NAME, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [ADDRESS], nodeName: node-1}]
`

func TestEndpointSlice_IsStoredOnlyWhileWanted(t *testing.T) {
	text := func(name, address string) string {
		return strings.NewReplacer("NAME", name, "ADDRESS", address).Replace(slice)
	}
	r := begin(t, func(api *kubetest.Server) { api.Apply(t, "endpointslices", text("web-1", "10.0.0.1")) }).synced()
	// Until the first translation ends, the store has every slice.
	r.Has(store.EndpointSlices, "default/web-1", true)
	r.park()
	if n := len(store.EndpointSlices.All(r.Store.View())); n != 0 {
		t.Fatalf("%d slices in the store that are not wanted", n)
	}
	web := []kube.Demand{{Table: "EndpointSlice", Index: store.ByService, Key: "default/web"}}
	r.want(web)
	got, ok := store.EndpointSlices.Get(r.Store.View(), "default/web-1")
	if !ok || got.Endpoints[0].Addresses[0] != "10.0.0.1" || got.Endpoints[0].NodeName != nil ||
		*got.Ports[0].Name != "http" {
		t.Fatalf("right after Want the slice is %+v, want 10.0.0.1 at http, without its node", got)
	}
	r.API.Apply(t, "endpointslices", text("web-1", "10.0.0.2"))
	r.API.Apply(t, "endpointslices", text("web-2", "10.0.0.3"))
	r.Has(store.EndpointSlices, "default/web-2", true)
	r.Source.Want(nil, web)
	r.flush()
	if n := len(store.EndpointSlices.All(r.Store.View())); n != 0 {
		t.Errorf("%d slices in the store that are not wanted any more", n)
	}
	r.want(web)
	if got, _ := store.EndpointSlices.Get(r.Store.View(), "default/web-1"); got == nil ||
		got.Endpoints[0].Addresses[0] != "10.0.0.2" {
		t.Errorf("the slice is %+v, want 10.0.0.2", got)
	}
}

// Some implementations make a Service for a ServiceImport. The Service's EndpointSlices are stored
// while the Service or the ServiceImport is demanded.
func TestEndpointSlice_OfServiceImportIsStoredWhileEitherIsWanted(t *testing.T) {
	text := strings.NewReplacer("NAME", "web-east", "ADDRESS", "10.0.0.1", "{kubernetes.io/service-name: web}",
		"{kubernetes.io/service-name: derived-1, multicluster.kubernetes.io/service-name: web}").Replace(slice)
	r := begin(t, func(api *kubetest.Server) { api.Apply(t, "endpointslices", text) }).synced()
	r.Has(store.EndpointSlices, "default/web-east", true)
	r.park()
	imported := []kube.Demand{
		{Table: "EndpointSlice", Index: store.ByService, Key: store.ServiceImportKey("default", "web")},
	}
	derived := []kube.Demand{{Table: "EndpointSlice", Index: store.ByService, Key: "default/derived-1"}}
	// the Service with the import's name
	other := []kube.Demand{{Table: "EndpointSlice", Index: store.ByService, Key: "default/web"}}
	stored := func(want bool, when string) {
		t.Helper()
		r.flush()
		if _, got := store.EndpointSlices.Get(r.Store.View(), "default/web-east"); got != want {
			t.Errorf("%s: stored is %t, want %t", when, got, want)
		}
	}
	stored(false, "nothing is wanted")
	r.want(other)
	stored(false, "a Service is wanted")
	r.want(imported)
	stored(true, "the ServiceImport is wanted")
	r.want(derived)
	r.Source.Want(nil, imported)
	stored(true, "the derived Service is wanted")
	r.Source.Want(nil, derived)
	stored(false, "neither is wanted any more")
}

// EndpointSlices without a demand stay in the store until the first translation ends. A route may
// attach only after a certificate was fetched, and translation reads the route's endpoints only
// then.
func TestEndpointSlice_StaysUntilFirstTranslationEnds(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "endpointslices", strings.NewReplacer("NAME", "web-1", "ADDRESS", "10.0.0.1").Replace(slice))
	}).synced()
	r.want([]kube.Demand{{Table: "Secret", Index: store.ByID, Key: "default/cert"}})
	r.Has(store.EndpointSlices, "default/web-1", true)
	r.park()
	r.Has(store.EndpointSlices, "default/web-1", false)
}

func TestEndpointSlice_EndpointsWithEqualConditionsAreMerged(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "endpointslices", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
  metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}, ports: [{name: http, port: 80}], endpoints: [
  {addresses: [10.0.0.1], nodeName: a}, {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}},
  {addresses: [10.0.0.3], nodeName: b}, {addresses: [10.0.0.4], conditions: {ready: false, serving: true, terminating: true}},
  {addresses: [10.0.0.5], conditions: {ready: false}}]}`)
	}).synced()
	r.Has(store.EndpointSlices, "default/web-1", true)
	got, _ := store.EndpointSlices.Get(r.Store.View(), "default/web-1")
	var groups []string
	for _, e := range got.Endpoints {
		groups = append(groups, strings.Join(e.Addresses, " "))
	}
	if want := []string{"10.0.0.1 10.0.0.3", "10.0.0.2 10.0.0.4", "10.0.0.5"}; !slices.Equal(groups, want) {
		t.Errorf("endpoints are %q, want %q", groups, want)
	}
	if c := got.Endpoints[1].Conditions; *c.Ready || !*c.Serving || !*c.Terminating ||
		got.Endpoints[0].Conditions.Ready != nil {
		t.Errorf("endpoints %+v: want the second serving while it terminates, and no state of the first", got.Endpoints)
	}
}

func TestSecret_OnlyNamedSecretsAreRead(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) {
		for _, name := range []string{"cert", "other"} {
			api.Apply(t, "secrets", "{apiVersion: v1, kind: Secret, metadata: {namespace: default, name: "+name+
				"}, data: {k: dg==}}")
		}
	}).synced()
	if asked := r.API.Asked("/secrets"); len(asked) > 0 {
		t.Errorf("asked without need: got %q, want no request", asked)
	}
	want := []kube.Demand{{Table: "Secret", Index: store.ByID, Key: "default/cert"},
		{Table: "Secret", Index: store.ByID, Key: "default/none"}}
	r.want(want)
	all := store.Secrets.All(r.Store.View())
	if len(all) != 1 || all[0].Name != "cert" || string(all[0].Data["k"]) != "v" {
		t.Errorf("in the store: got %+v, want cert alone", all)
	}
	for _, asked := range r.API.Asked("/secrets") {
		if !strings.Contains(asked, "/namespaces/default/secrets") ||
			!strings.Contains(asked, "fieldSelector=metadata.name%3D") {
			t.Errorf("asked for %s, want one Secret by its name", asked)
		}
	}
	r.API.Apply(t, "secrets",
		"{apiVersion: v1, kind: Secret, metadata: {namespace: default, name: none}, data: {k: dg==}}")
	r.Has(store.Secrets, "default/none", true)
}

func TestPod_OnlyNamespacesOfPoolsAreRead(t *testing.T) {
	pod := func(ns, name, app string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {namespace: " + ns + ", name: " + name + ", labels: {app: " +
			app + "}}, spec: {nodeName: node-1}, status: {podIP: 10.0.0.1, phase: Running}}"
	}
	r := begin(t, func(api *kubetest.Server) {
		api.Apply(t, "pods", pod("default", "mine", "chat"))
		api.Apply(t, "pods", pod("default", "other", "web"))
		api.Apply(t, "pods", pod("elsewhere", "far", "chat"))
	}).synced()
	r.want([]kube.Demand{{Table: "Pod", Index: store.ByLabel, Key: store.LabelKey("default", "app", "chat")}})
	all := store.Pods.All(r.Store.View())
	if len(all) != 1 || all[0].Name != "mine" || all[0].Spec.NodeName != "" || all[0].Status.PodIP != "10.0.0.1" {
		t.Errorf("in the store: got %+v, want mine alone, with its address and without its node", all)
	}
	for _, asked := range r.API.Asked("/pods") {
		if !strings.Contains(asked, "/namespaces/default/pods") {
			t.Errorf(`asked for more than it needs: %s, want a text with "/namespaces/default/pods"`, asked)
		}
	}
	r.API.Apply(t, "pods", pod("default", "other", "chat")) // the Pod gets another label
	r.Has(store.Pods, "default/other", true)
	r.API.Apply(t, "pods", pod("default", "mine", "web"))
	r.Has(store.Pods, "default/mine", false)
}

func TestSecret_ForbiddenReadDoesNotBlockForever(t *testing.T) {
	r := begin(t, nil).synced()
	r.API.Fail(func(_, path string) int {
		if strings.Contains(path, "/secrets") {
			return http.StatusForbidden
		}
		return 0
	})
	if r.Source.Forbidden() {
		t.Error("the source reports a forbidden read before any read of Secrets")
	}
	read := r.Source.Want([]kube.Demand{{Table: "Secret", Index: store.ByID, Key: "default/cert"}}, nil)
	r.Eventually(func() string {
		if !strings.Contains(r.Reports(), "Secret cannot be read") {
			return "no report that Secrets cannot be read"
		}
		return ""
	})
	select {
	case <-read[0]:
		t.Error("the Secret counts as read although it could not be")
	default:
	}
	if !r.Source.Forbidden() {
		t.Error("the source does not report that the read is forbidden")
	}
	r.API.Fail(func(_, path string) int {
		if strings.Contains(path, "/secrets") {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	r.Eventually(func() string {
		if r.Source.Forbidden() {
			return "an overloaded API server counts as one that forbids"
		}
		return ""
	})
}

// The multi-cluster proposal's examples have an object where its Go types have a list. The CRDs of
// a controller may follow the examples.
func TestInferencePoolImport_ServiceAsObjectIsRead(t *testing.T) {
	const object = `{apiVersion: inference.networking.x-k8s.io/v1alpha1, kind: InferencePoolImport, metadata: {namespace: default, name: NAME}, status: {clusters: [
  {name: east, routingMode: EndpointMode, targetPortNumber: 8000, endpointPicker: {service: SERVICE}},
  {name: west, routingMode: ParentMode, parents: [{service: SERVICE}]}]}}`
	const service = "{addresses: [192.0.2.1], ports: [{number: 9002}]}"
	imported := func(name, service string) string {
		return strings.NewReplacer("NAME", name, "SERVICE", service).Replace(object)
	}
	r := begin(t, func(api *kubetest.Server) {
		api.Install("inference.networking.x-k8s.io", "inferencepoolimports", "v1alpha1")
		api.Apply(t, "inferencepoolimports", imported("object", service))
		api.Apply(t, "inferencepoolimports", imported("list", "["+service+"]"))
	}).synced()
	for _, name := range []string{"object", "list"} {
		imp, ok := store.InferencePoolImports.Get(r.Store.View(), "default/"+name)
		if !ok {
			t.Fatalf("%s was not read", name)
		}
		for _, s := range []inferenceapi.ServiceImports{
			imp.Status.Clusters[0].EndpointPicker.Service, imp.Status.Clusters[1].Parents[0].Service,
		} {
			if len(s) != 1 || s[0].Addresses[0] != "192.0.2.1" || s[0].Ports[0].Number != 9002 {
				t.Errorf("%s: got %+v, want 192.0.2.1 at 9002", name, s)
			}
		}
	}
}

// After a change of a CRD's definition, its objects are listed again (relistDelay), because the API
// server still delivers them according to the old definition for a moment.
func TestReflector_ChangedCRDIsListedAgain(t *testing.T) {
	r := begin(t, func(api *kubetest.Server) { api.Apply(t, "httproutes", kubetest.Route("a")) }).synced()
	lists := func() int { return len(r.API.Asked("/httproutes?")) }
	before := lists()
	crd := r.API.Get("apiextensions.k8s.io", "customresourcedefinitions", "httproutes."+kubetest.GatewayGroup)
	// A label does not change the definition.
	crd["metadata"].(kubetest.Object)["labels"] = kubetest.Object{"a": "b"}
	r.API.Put("customresourcedefinitions", crd)
	crd["spec"].(kubetest.Object)["preserveUnknownFields"] = false
	r.API.Put("customresourcedefinitions", crd)
	r.Eventually(func() string {
		if n := lists() - before; n != 1 {
			return fmt.Sprintf("%d more lists", n)
		}
		return ""
	})
	r.Has(store.HTTPRoutes, "default/a", true)
	if n := r.Store.View().Revision(); n != 1 {
		t.Errorf("%d revisions, want 1: no object changed", n)
	}
}
