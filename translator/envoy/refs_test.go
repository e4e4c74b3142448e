package envoy

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// Clusters and listeners must reference their endpoints and routes. The delivery sends a changed
// cluster's endpoints again, because the cluster is warm only after this.
func TestReferences_ClusterNamesItsEndpointsAndListenerItsRoutes(t *testing.T) {
	names := func(r *resource.Resource, err error, ref resource.Ref) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(r.Refs, ref) {
			t.Errorf("%s: want a reference to %s, got %v", r.Ref, ref, r.Refs)
		}
	}
	c, err := Cluster(&model.Cluster{Name: named("pool/default/chat"), Protocol: model.HTTP1,
		Fallback: model.FallbackPods})
	names(c, err, resource.Ref{Type: resource.Endpoints, Name: "pool/default/chat"})
	h, err := HopListener(Config{}, nil)
	names(h, err, resource.Ref{Type: resource.RouteConfiguration, Name: "hops"})
	hop := model.HopTo("InferencePool", "default", "chat")
	e, err := Endpoints(&model.Assignment{Cluster: named("pool/default/first"),
		Endpoints: []model.Endpoint{{Hop: hop}}})
	names(e, err, resource.Ref{Type: resource.Listener, Name: "hops"})
	names(e, err, resource.Ref{Type: resource.VirtualHost, Name: "hop.default.pool.chat"})
	rc, err := hopRoutes(
		model.Hop{Name: hop, Backends: []model.WeightedBackend{{Cluster: named("last/pool/default/chat"), Weight: 1}}})
	names(rc, err, resource.Ref{Type: resource.VirtualHost, Name: "hop.default.pool.chat"})
	l, err := Listener(Config{},
		model.Port{Gateway: "default/gw", Number: 80, Addresses: []string{"127.0.0.1"},
			Chains: []model.Chain{{Name: "http/80"}}})
	names(l, err, resource.Ref{Type: resource.RouteConfiguration, Name: model.RoutesName("http/80")})
}

// A new filter that is active by default needs a new model.filterGeneration, because routes of an
// earlier release do not switch the filter off.
func TestHTTPFilters_NewOneMayNeedAnotherGeneration(t *testing.T) {
	const want = "gate-early uploads scripts stay cors gate ext-authz rbac watch local-rate-limit " +
		"stateful-session header-mutation metadata picker picker-spill token-usage router"
	var got []string
	for _, f := range (&builder{}).httpFilters(0, nil) {
		got = append(got, f.GetName())
	}
	if all := strings.Join(got, " "); all != want || model.RoutesName("") != "~2" {
		t.Errorf("the filters of %s are %s; want %s. If a new filter acts unless routes switch it off, change "+
			"model.filterGeneration; then change this test", model.RoutesName(""), all, want)
	}
}
