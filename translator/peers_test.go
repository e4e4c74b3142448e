package translator_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// exporting returns a store with an exported pool, first, and a route to it. The pool spills to an
// import and to another pool.
func exporting(t *testing.T, more ...store.Op) (*store.Store, *translator.Translator) {
	t.Helper()
	return exportingBy(t, config(), more...)
}

func exportingBy(t *testing.T, cfg translator.Config, more ...store.Op) (*store.Store, *translator.Translator) {
	t.Helper()
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	pool := func(name string) store.Op {
		return store.InferencePools.Put(&inferencev1.InferencePool{ObjectMeta: named(name),
			Spec: inferencev1.InferencePoolSpec{
				Selector: inferencev1.LabelSelector{
					MatchLabels: map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "a"},
				},
				TargetPorts: []inferencev1.Port{{Number: 8000}},
			}})
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: named("r")}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
	backend := gatewayv1.HTTPBackendRef{}
	backend.Group, backend.Kind, backend.Name = ptr[gatewayv1.Group]("inference.networking.k8s.io"),
		ptr[gatewayv1.Kind]("InferencePool"), "first"
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{backend}}}
	policy := &v1alpha1.PoolPolicy{ObjectMeta: named("p")}
	policy.Spec.TargetRef.Name = "first"
	policy.Spec.Spill = []v1alpha1.PoolRef{{Name: "other"}, {Kind: "InferencePoolImport", Name: "far"}}
	far := &inferenceapi.InferencePoolImport{ObjectMeta: named("far")}
	far.Status.Clusters = []inferenceapi.ImportedCluster{{Name: "east", RoutingMode: inferenceapi.ParentMode,
		Parents: []inferenceapi.ParentImport{{
			Service: inferenceapi.ServiceImports{
				{Addresses: []string{"192.0.2.1"}, Ports: []inferenceapi.Port{{Number: 80}}},
			},
		}}}}
	s, pair := store.New(), keyPair(t, "west")
	ops := append([]store.Op{
		pool("first"), pool("other"), store.HTTPRoutes.Put(route), store.PoolPolicies.Put(policy),
		store.InferencePoolImports.Put(far),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: named("gw"), Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
				{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
			},
		}}),
		store.Exports.Put(&store.Export{ObjectMeta: named("first"), Members: []string{"east"}}),
		store.Memberships.Put(&store.Membership{
			ObjectMeta: metav1.ObjectMeta{Name: store.OwnMembership}, Cluster: "west", Chain: pair[0], Key: pair[1],
			PeerPort: 15443,
			Members:  []store.Member{{Name: "east", Bundle: pair[0]}},
		}),
	}, more...)
	if _, err := s.Apply(ops...); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(cfg)
	if out := tr.Update(s.View(), store.Everything(s.View())); out.Err != nil {
		t.Fatal(out.Err)
	}
	return s, tr
}

func resourceOf(t *testing.T, tr *translator.Translator, kind resource.Type, name string) *resource.Resource {
	t.Helper()
	all := tr.Resources("default/gw")
	i := slices.IndexFunc(all, func(r *resource.Resource) bool { return r.Ref == resource.Ref{Type: kind, Name: name} })
	if i < 0 {
		t.Fatalf("no %v %s", kind, name)
	}
	return all[i]
}

// A request from another cluster reaches only the local pool, never an import or another pool. So
// no configuration can cause a loop.
func TestPeerListener_LeadsToTheLocalPoolAlone(t *testing.T) {
	_, tr := exporting(t)
	routes := resourceOf(t, tr, resource.RouteConfiguration, model.RoutesName(model.PeerChain(15443)))
	for _, ref := range routes.Refs {
		if ref.Name != "last/pool/default/first" && ref.Name != model.OurPicker.String() {
			t.Errorf("requests of members may reach %s, want the local pool and our picker alone", ref)
		}
	}
	last := resourceOf(t, tr, resource.Endpoints, "last/pool/default/first")
	if slices.ContainsFunc(last.Refs, func(r resource.Ref) bool { return r.Type == resource.Listener }) ||
		bytes.Contains(last.Body(), []byte("hop.")) {
		t.Errorf("its cluster leads on to %v, want no hop", last.Refs)
	}
}

// A changed listener would end all requests from other clusters.
func TestPeerListener_StaysWhileMembersAndExportsChange(t *testing.T) {
	s, tr := exporting(t)
	stored, _ := store.Memberships.Get(s.View(), store.OwnMembership)
	changed := stored.DeepCopyObject().(*store.Membership)
	pair := keyPair(t, "west")
	changed.Chain, changed.Key, changed.Members = pair[0], pair[1],
		append(changed.Members, store.Member{Name: "north", Bundle: pair[0]})
	rev, err := s.Apply(store.Memberships.Put(changed),
		store.Exports.Put(&store.Export{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"},
			Members: []string{"east", "north"}}))
	if err != nil {
		t.Fatal(err)
	}
	out := tr.Update(s.View(), rev.Changes)
	if out.Err != nil || len(out.Deltas) != 1 {
		t.Fatalf("%v, %d deltas, want 1", out.Err, len(out.Deltas))
	}
	for _, r := range out.Deltas[0].Upserts {
		if r.Type != resource.Secret && r.Type != resource.RouteConfiguration {
			t.Errorf("%v changed, want Secrets and routes alone", r.Ref)
		}
	}
	if n := len(out.Deltas[0].Upserts); n != 3 || len(out.Deltas[0].Removes) > 0 {
		t.Errorf("%d changed, %v removed, want 3 and none", n, out.Deltas[0].Removes)
	}
}

// PeerPort returns the peer listener's port while the listener exists. If the Envoys bind this port
// for their own use, PeerPort returns 0, and a finding names the fix.
func TestPeerListener_FleetHasItsPortOrAFinding(t *testing.T) {
	s, tr := exporting(t)
	if got := tr.PeerPort("default/gw"); got != 15443 {
		t.Errorf("port %d, want 15443", got)
	}
	stored, _ := store.Memberships.Get(s.View(), store.OwnMembership)
	alone := stored.DeepCopyObject().(*store.Membership)
	alone.Members = nil
	rev, err := s.Apply(store.Memberships.Put(alone))
	if err != nil {
		t.Fatal(err)
	}
	if out := tr.Update(s.View(), rev.Changes); out.Err != nil || tr.PeerPort("default/gw") != 0 {
		t.Errorf("%v; without members: port %d, want 0", out.Err, tr.PeerPort("default/gw"))
	}

	cfg := config()
	cfg.ReservedPort = 15443
	s, tr = exportingBy(t, cfg)
	if got := tr.PeerPort("default/gw"); got != 0 {
		t.Errorf("the proxies' own port: %d, want 0", got)
	}
	out := translator.New(cfg).Update(s.View(), store.Everything(s.View()))
	i := slices.IndexFunc(out.Reports, func(r report.Report) bool { return r.Owner.Kind == "Gateway" })
	if out.Err != nil || i < 0 || len(out.Reports[i].Findings) == 0 ||
		!strings.Contains(out.Reports[i].Findings[0].Problem, "bind port 15443 for themselves") {
		t.Errorf("%v, reports %+v; want a finding that the proxies bind port 15443", out.Err, out.Reports)
	}
}

// Policies with members, for the pool or the Gateway, restrict which clusters reach a peer
// listener. Policies for routes, and policies without members, do not.
func TestAccessPolicy_MembersGatePeerListeners(t *testing.T) {
	with := func(p *v1alpha1.AccessPolicy, members ...string) *v1alpha1.AccessPolicy {
		p.Spec.Members = append([]string{}, members...)
		return p
	}
	null := gate("null", "InferencePool first")
	null.Spec.Nulls = []string{"members"}
	exports := store.Exports.Put(&store.Export{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"},
		Members: []string{"east", "north", "south"}})
	for _, c := range []struct {
		what     string
		policies []*v1alpha1.AccessPolicy
		want     string
	}{
		{"no policy", nil, "east north south"},
		{"without members", []*v1alpha1.AccessPolicy{gate("p", "InferencePool first")}, "east north south"},
		{"pool", []*v1alpha1.AccessPolicy{with(gate("p", "InferencePool first"), "east")}, "east #members"},
		{"Gateway", []*v1alpha1.AccessPolicy{with(gate("p", "Gateway gw"), "east", "west")}, "east #members"},
		{"both", []*v1alpha1.AccessPolicy{with(gate("p", "Gateway gw"), "east", "north"),
			with(gate("q", "InferencePool first"), "north", "south")}, "north #members"},
		{"none", []*v1alpha1.AccessPolicy{with(gate("p", "InferencePool first"))}, "#members"},
		{"null", []*v1alpha1.AccessPolicy{null}, "#members"},
		{"another pool", []*v1alpha1.AccessPolicy{with(gate("p", "InferencePool other"), "east")}, "east north south"},
		{"listener", []*v1alpha1.AccessPolicy{with(gate("p", "Gateway gw http"), "east")}, "east north south"},
		{"route", []*v1alpha1.AccessPolicy{with(gate("p", "HTTPRoute r"), "east")}, "east north south"},
	} {
		ops := []store.Op{exports}
		for _, p := range c.policies {
			ops = append(ops, store.AccessPolicies.Put(p))
		}
		_, tr := exporting(t, ops...)
		routes := resourceOf(t, tr, resource.RouteConfiguration, model.RoutesName(model.PeerChain(15443)))
		var found []string
		for _, m := range []string{"east", "north", "south"} {
			if bytes.Contains(routes.Body(), []byte(model.GatewayURI(m))) {
				found = append(found, m)
			}
		}
		if bytes.Contains(routes.Body(), []byte("pool.penstock#members")) {
			found = append(found, "#members")
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

func TestAccessPolicy_MemberThatTheSetDoesNotHaveIsAFinding(t *testing.T) {
	p := gate("p", "InferencePool first", "HTTPRoute r")
	p.Spec.Members = []string{"east", "esat"}
	w := newGateWorld(t)
	w.apply(store.AccessPolicies.Put(p), store.Memberships.Put(&store.Membership{
		ObjectMeta: metav1.ObjectMeta{Name: store.OwnMembership}, Set: "gpus", Cluster: "west",
		Names: []string{"east"}}))
	var got []string
	for _, f := range w.reports[store.AccessPolicies.Ref(p)].Findings {
		got = append(got, f.String())
	}
	for i, want := range []string{
		"AccessPolicy default/p spec.targetRefs[1]: spec.members has no effect on it",
		`AccessPolicy default/p spec.members[1]: ClusterSet gpus has no member esat: did you mean east?`,
	} {
		if len(got) != 2 || !strings.Contains(got[i], want) {
			t.Errorf("the findings are %q, want %q", got, want)
		}
	}
}
