package translator_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
)

func importOffer(pool, cluster, endpoint string) store.Op {
	return offerFailing("FailClose", pool, cluster, endpoint)
}

func offerFailing(mode, pool, cluster, endpoint string) store.Op {
	o := &store.Offer{Import: pool, Cluster: inferenceapi.ImportedCluster{
		Name: cluster, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000, FailureMode: mode,
		Endpoints: []inferenceapi.ImportedEndpoint{{Address: endpoint}},
		EndpointPicker: &inferenceapi.EndpointPickerImport{
			Service: inferenceapi.ServiceImports{
				{Addresses: []string{"192.0.2.9"}, Ports: []inferenceapi.Port{{Number: 9002}}},
			},
		},
	}}
	o.Namespace, o.Name = "default", store.OfferName(pool, cluster)
	return store.Offers.Put(o)
}

func importRoute(name, pool string) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
	backend := gatewayv1.HTTPBackendRef{}
	backend.Group, backend.Kind, backend.Name = ptr[gatewayv1.Group]("inference.networking.x-k8s.io"),
		ptr[gatewayv1.Kind]("InferencePoolImport"), gatewayv1.ObjectName(pool)
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{backend}}}
	return r
}

func TestImport_HasPickerPoolsOnceARouteLeadsThere(t *testing.T) {
	s := store.New()
	ops := []store.Op{store.AddressPolicies.Put(addresses.Unrestricted()),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				},
			}})}
	for i := range 10 {
		ops = append(ops, importOffer(fmt.Sprint("pool", i), "east", fmt.Sprintf("10.1.0.%d", i+1)),
			importOffer(fmt.Sprint("pool", i), "west", fmt.Sprintf("10.2.0.%d", i+1)))
	}
	tr := translator.New(config())
	update := func(ops ...store.Op) translator.Output {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		out := tr.Update(s.View(), rev.Changes)
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		return out
	}
	if out := update(ops...); len(out.Pools) != 0 {
		t.Errorf("%d pools of the picker without a route, want none", len(out.Pools))
	}
	if out := update(importOffer("pool3", "east", "10.1.9.9")); len(out.Pools) != 0 {
		t.Errorf("%d pools of the picker after a change of an import that no route names, want none", len(out.Pools))
	}
	out := update(store.HTTPRoutes.Put(importRoute("r", "pool3")))
	if len(out.Pools) != 2 || out.Pools[0].Pool.Name.Name != "pool3" || len(out.Pools[0].Members) != 1 ||
		out.Pools[0].Members[0].Address.String() != "10.1.9.9:8000" {
		t.Errorf("pools of the picker with a route to an import of two clusters: got %+v, want 2, pool3 first at "+
			"10.1.9.9", out.Pools)
	}
	if out := update(importOffer("pool3", "east", "10.1.9.8")); len(out.Pools) != 1 {
		t.Errorf("%d pools of the picker change with one endpoint, want 1", len(out.Pools))
	}
	if out := update(store.HTTPRoutes.Put(importRoute("r", "pool4-west"))); len(out.Pools) != 1 ||
		len(out.PoolsGone) != 2 {
		t.Errorf("a route to one cluster of another import: %d pools, %d gone, want 1 and 2", len(out.Pools),
			len(out.PoolsGone))
	}
	if out := update(store.HTTPRoutes.Delete("default/r")); len(out.PoolsGone) != 1 {
		t.Errorf("%d pools are gone with the route, want 1", len(out.PoolsGone))
	}
}

// If Penstock's picker, not Envoy, calls an external picker (relay), its health is checked, too.
// But only pickers that Envoy calls get probe requests.
func TestImport_HealthOfARelayedPickerIsFollowed(t *testing.T) {
	s, tr := store.New(), translator.New(config())
	pickers := func(health *inferenceapi.EndpointImport, endpoints ...inferenceapi.ImportedEndpoint) (out string) {
		t.Helper()
		imp := &inferenceapi.InferencePoolImport{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "far"}}
		imp.Status.Clusters = []inferenceapi.ImportedCluster{{
			Name: "east", RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
			PodCIDRs: []string{"10.0.0.0/8"}, Endpoints: endpoints,
			EndpointPicker: &inferenceapi.EndpointPickerImport{
				Health: health, Pool: "ns/chat", Service: inferenceapi.ServiceImports{
					{Addresses: []string{"192.0.2.9"}, Ports: []inferenceapi.Port{{Number: 9002}}},
				},
			},
		}}
		rev, err := s.Apply(store.AddressPolicies.Put(addresses.Unrestricted()), store.InferencePoolImports.Put(imp),
			store.HTTPRoutes.Put(importRoute("r", "far")),
			store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
				Spec: gatewayv1.GatewaySpec{
					GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
						{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
					},
				}}))
		if err != nil {
			t.Fatal(err)
		}
		changes := tr.Update(s.View(), rev.Changes)
		for _, e := range changes.Pickers {
			out += fmt.Sprintf("%s of %s at %s, relayed %t, health %d; ", e.Field, e.Pool, e.Addresses[0].Addr,
				e.Relayed, e.Health.Port)
		}
		for _, id := range changes.PickersGone {
			out += "gone " + id.String()
		}
		return out
	}
	if got := pickers(nil); got != "" {
		t.Errorf("a relayed picker of which nothing else is known: got %s, want no change", got)
	}
	health := &inferenceapi.EndpointImport{Port: 9003}
	if got := pickers(
		health); got != "status.clusters[0].endpointPicker of chat at 192.0.2.9:9002, relayed true, health 9003; " {
		t.Errorf("a relayed picker with health: %s, want %q",
			got, "status.clusters[0].endpointPicker of chat at 192.0.2.9:9002, relayed true, health 9003; ")
	}
	if got := pickers(health, inferenceapi.ImportedEndpoint{
		Address: "10.1.0.1",
	}); got != "status.clusters[0].endpointPicker of chat at 192.0.2.9:9002, relayed false, health 9003; " {
		t.Errorf("one that Envoy asks: %s, want %q",
			got, "status.clusters[0].endpointPicker of chat at 192.0.2.9:9002, relayed false, health 9003; ")
	}
	if got := pickers(nil); got != "gone import-picker/default/far/east" {
		t.Errorf(`a relayed picker again: %s, want "gone import-picker/default/far/east"`, got)
	}
}

// If an exporting cluster fails open, requests ignore its picker only at the last hop, after all
// clusters have declined.
func TestImport_ExplainNamesWhatFollowsAClusterWithoutAPick(t *testing.T) {
	s := store.New()
	rev, err := s.Apply(store.AddressPolicies.Put(addresses.Unrestricted()),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				},
			}}), offerFailing("FailOpen", "chat", "east", "10.1.0.1"),
		offerFailing("FailOpen", "chat", "west", "10.2.0.1"),
		store.HTTPRoutes.Put(importRoute("r", "chat")))
	if err != nil {
		t.Fatal(err)
	}
	tr := translator.New(config())
	if out := tr.Update(s.View(), rev.Changes); out.Err != nil {
		t.Fatal(out.Err)
	}
	e := tr.Explain(translator.Query{URL: &url.URL{Scheme: "http", Host: "a.example.com"}})
	if len(e.Backends) != 1 {
		t.Fatalf("got %+v, want one backend", e)
	}
	var got []string
	for _, h := range e.Backends[0].Hops {
		for _, b := range h.Backends {
			got = append(got, b.NoPick)
		}
	}
	want := []string{"another exporting cluster", "another exporting cluster", "any ready endpoint",
		"any ready endpoint"}
	if !slices.Equal(got, want) {
		t.Errorf("without a pick: %q, want %q", got, want)
	}
}
