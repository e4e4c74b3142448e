package translator_test

import (
	"slices"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

// spillWorld has a Gateway with a route to the first of three pools.
func spillWorld() []store.Op {
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
	return []store.Op{pool("first"), pool("zebra"), pool("alpha"), store.HTTPRoutes.Put(route),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: named("gw"), Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "penstock",
			Listeners:        []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		}}),
	}
}

// If the picker picks nothing, Envoy must use only the first spill target, in the user's order.
func TestPoolPolicy_FallbackUsesOnlyTheFirstSpillTarget(t *testing.T) {
	policy := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	policy.Spec.TargetRef.Name = "first"
	policy.Spec.Picker.FailureMode = "FailClose"
	policy.Spec.Spill = []v1alpha1.PoolRef{{Name: "zebra"}, {Name: "alpha"}}
	s := store.New()
	if _, err := s.Apply(append(spillWorld(), store.PoolPolicies.Put(policy))...); err != nil {
		t.Fatal(err)
	}
	tr := translator.New(config())
	if out := tr.Update(s.View(), store.Everything(s.View())); out.Err != nil {
		t.Fatal(out.Err)
	}
	roles := map[string]string{}
	for _, r := range tr.Resources("default/gw") {
		if r.Ref != (resource.Ref{Type: resource.Endpoints, Name: "pool/default/first"}) {
			continue
		}
		var load endpointv3.ClusterLoadAssignment
		if err := proto.Unmarshal(r.Body(), &load); err != nil {
			t.Fatal(err)
		}
		for _, group := range load.GetEndpoints() {
			for _, e := range group.GetLbEndpoints() {
				hop := e.GetEndpoint().GetAddress().GetEnvoyInternalAddress().GetEndpointId()
				roles[hop] = e.GetMetadata().GetFilterMetadata()["envoy.lb"].GetFields()["role"].GetStringValue()
			}
		}
	}
	if roles["hop.default.pool.zebra"] != "spill" {
		t.Errorf("roles %v, want zebra, the first target, as the fallback", roles)
	}
	if role, there := roles["hop.default.pool.alpha"]; !there || role == "spill" {
		t.Errorf("roles %v, want alpha, the second target, for picks alone", roles)
	}
}

// A changed listener drains its connections. So hops to spill targets are virtual hosts of a
// listener that must never change.
func TestHop_ComesAndGoesWithoutAListener(t *testing.T) {
	s := store.New()
	apply := func(ops ...store.Op) []string {
		t.Helper()
		if _, err := s.Apply(ops...); err != nil {
			t.Fatal(err)
		}
		tr := translator.New(config())
		if out := tr.Update(s.View(), store.Everything(s.View())); out.Err != nil {
			t.Fatal(out.Err)
		}
		var listeners []string
		for _, r := range tr.Resources("default/gw") {
			if r.Type == resource.Listener {
				listeners = append(listeners, r.Name+" "+r.Version)
			}
		}
		return listeners
	}
	without := apply(spillWorld()...)
	policy := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	policy.Spec.TargetRef.Name = "first"
	policy.Spec.Spill = []v1alpha1.PoolRef{{Name: "zebra"}}
	one := apply(store.PoolPolicies.Put(policy))
	more := deepcopy.Of(policy)
	more.Spec.Spill = append(more.Spec.Spill, v1alpha1.PoolRef{Name: "alpha"})
	two := apply(store.PoolPolicies.Put(more))
	if len(without) != 1 || len(one) != 2 || !slices.Equal(one, two) {
		t.Errorf("listeners without hops %v, with one %v, with two %v; want 1, 2, and the same 2", without, one, two)
	}
}
