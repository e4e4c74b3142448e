package translator_test

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Envoy rejects an address with a zone, and all endpoints of its cluster with it. So the address
// gets a finding in its object, and the other addresses take effect.
func TestAddresses_WithAZoneAreFindingsAndReachNoEnvoy(t *testing.T) {
	const zoned = "fd00::1%eth0"
	byHand := written("chat", "east")
	byHand.Status.Clusters[0] = inferenceapi.ImportedCluster{
		Name: "east", RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000,
		Endpoints: []inferenceapi.ImportedEndpoint{{Address: zoned}, {Address: "192.0.2.1"}},
		EndpointPicker: &inferenceapi.EndpointPickerImport{Service: inferenceapi.ServiceImports{{
			Addresses: []string{"192.0.2.9"}, Ports: []inferenceapi.Port{{Number: 9002}}}}},
	}
	picker := written("code", "east")
	picker.Status.Clusters[0] = *deepcopy.Of(&byHand.Status.Clusters[0])
	picker.Status.Clusters[0].EndpointPicker.Service[0].Addresses = []string{zoned}
	gateways := written("parents", "east")
	gateways.Status.Clusters[0].Parents[0].Service[0].Addresses = []string{zoned}
	pool := &inferencev1.InferencePool{ObjectMeta: inDefault("own")}
	pool.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "own"}
	pool.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
	servers := &v1alpha1.ModelServers{ObjectMeta: inDefault("own")}
	servers.Spec.Servers = []v1alpha1.ModelServer{{Address: zoned, Labels: map[string]string{"app": "own"}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: inDefault("plain")}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "plain"}
	slice.Ports = []discoveryv1.EndpointPort{{Port: ptr[int32](8000)}}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{zoned}}}
	service := &corev1.Service{ObjectMeta: inDefault("plain")}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	pod := &corev1.Pod{ObjectMeta: inDefault("zoned"), Status: corev1.PodStatus{PodIP: zoned}}
	pod.Labels = map[string]string{"app": "own"}
	second := &gatewayv1.Gateway{ObjectMeta: inDefault("second")}
	second.Spec.GatewayClassName = "penstock"
	second.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{Value: zoned}}
	second.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 81, Protocol: gatewayv1.HTTPProtocolType}}
	w := newNamed(t)
	imports := func(name string) store.Op {
		return routeTo(name, "inference.networking.x-k8s.io", "InferencePoolImport", name, nil)
	}
	rev, err := w.store.Apply(store.InferencePoolImports.Put(byHand), store.InferencePoolImports.Put(picker),
		store.InferencePoolImports.Put(gateways),
		store.InferencePools.Put(pool), store.ModelServers.Put(servers), store.EndpointSlices.Put(slice),
		store.Services.Put(service),
		store.Pods.Put(pod), store.Gateways.Put(second), imports("chat"), imports("code"), imports("parents"),
		routeTo("own", "inference.networking.k8s.io", "InferencePool", "own", nil),
		routeTo("plain", "", "Service", "plain", ptr[gatewayv1.PortNumber](80)))
	if err != nil {
		t.Fatal(err)
	}
	out := w.tr.Update(w.store.View(), rev.Changes)
	if out.Err != nil {
		t.Error(out.Err)
	}
	n := 0
	for _, d := range out.Deltas {
		for _, r := range d.Upserts {
			n++
			if bytes.Contains(r.Body(), []byte("%eth0")) {
				t.Errorf("a proxy receives %s with a zone, want none", r.Name)
			}
		}
	}
	if n < 10 {
		t.Errorf("proxies receive %d resources, which proves nothing, want at least 10", n)
	}
	for _, rep := range out.Reports {
		w.reports[rep.Owner] = rep
	}
	for _, f := range []struct{ kind, name, field string }{
		{"InferencePoolImport", "chat", "status.clusters[0].endpoints[0].address"},
		{"InferencePoolImport", "code", "status.clusters[0].endpointPicker"},
		{"InferencePoolImport", "parents", "status.clusters[0].parents[0]"},
		{"ModelServers", "own", "spec.servers[0].address"},
		{"Gateway", "second", "spec.addresses[0].value"},
	} {
		if !w.finding(f.kind, f.name, f.field, zoned) {
			t.Errorf("%s %s: want a finding about %s, got %+v", f.kind, f.name, f.field, w.reports)
		}
	}
}

func routeTo(name, group, kind, backend string, port *gatewayv1.PortNumber) store.Op {
	r := importRoute(name, backend)
	r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(name + ".example.com")}
	ref := &r.Spec.Rules[0].BackendRefs[0]
	ref.Group, ref.Kind, ref.Port = ptr(gatewayv1.Group(group)), ptr(gatewayv1.Kind(kind)), port
	return store.HTTPRoutes.Put(r)
}
