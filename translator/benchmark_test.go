package translator_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/translator"
)

// BenchmarkUpdate applies one change among 5,000 routes, each with its own host and Service.
func BenchmarkUpdate(b *testing.B) {
	const routes = 5000
	s := store.New()
	meta := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("app-", i)}
	}
	route := func(i int, timeout gatewayv1.Duration) store.Op {
		port := gatewayv1.PortNumber(80)
		return store.HTTPRoutes.Put(&gatewayv1.HTTPRoute{ObjectMeta: meta(i), Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: "gw"}}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("app-%d.example.com", i))},
			Rules: []gatewayv1.HTTPRouteRule{{
				Timeouts: &gatewayv1.HTTPRouteTimeouts{Request: &timeout},
				BackendRefs: []gatewayv1.HTTPBackendRef{
					{
						BackendRef: gatewayv1.BackendRef{
							BackendObjectReference: gatewayv1.BackendObjectReference{
								Name: gatewayv1.ObjectName(fmt.Sprint("app-", i)), Port: &port,
							},
						},
					},
				},
			}},
		}})
	}
	endpoint := func(i, last int) store.Op {
		port := int32(8080)
		m := meta(i)
		m.Labels = map[string]string{discoveryv1.LabelServiceName: m.Name}
		return store.EndpointSlices.Put(&discoveryv1.EndpointSlice{ObjectMeta: m,
			Ports:     []discoveryv1.EndpointPort{{Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{fmt.Sprintf("10.0.0.%d", last)}}}})
	}
	ops := []store.Op{store.Gateways.Put(
		&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"}, Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
				{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
			},
		}})}
	for i := range routes {
		ops = append(ops, route(i, "10s"), endpoint(i, 1),
			store.Services.Put(&corev1.Service{ObjectMeta: meta(i),
				Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}))
	}
	rev, err := s.Apply(ops...)
	if err != nil {
		b.Fatal(err)
	}
	before := heapBytes()
	tr := translator.New(config())
	tr.Update(s.View(), rev.Changes)
	rev, ops = store.Revision{}, nil
	live := heapBytes() - before
	for name, op := range map[string]func(i int) store.Op{
		"route":    func(i int) store.Op { return route(i%routes, gatewayv1.Duration(fmt.Sprintf("%ds", 11+i))) },
		"endpoint": func(i int) store.Op { return endpoint(i%routes, 2+i%200) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				rev, err := s.Apply(op(i))
				if err != nil {
					b.Fatal(err)
				}
				view := s.View()
				b.StartTimer()
				if out := tr.Update(view, rev.Changes); out.Err != nil || len(out.Deltas) != 1 {
					b.Fatalf("got %+v, want one delta", out)
				}
			}
			b.ReportMetric(float64(live)/(1<<20), "live-MiB")
		})
	}
}

func heapBytes() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkImports measures the first translation of 100 members' exports: 100 pools each, with 10
// endpoints, without routes.
func BenchmarkImports(b *testing.B) {
	s := store.New()
	if _, err := s.Apply(store.AddressPolicies.Put(&store.AddressPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: store.OwnAddressPolicy}, Allowed: []string{"10.0.0.0/8"},
	})); err != nil {
		b.Fatal(err)
	}
	var ops []store.Op
	for m := range 100 {
		for p := range 100 {
			name, cluster := fmt.Sprintf("pool-%03d-%03d", m, p), fmt.Sprintf("c%03d", m)
			o := &store.Offer{Import: name, Since: int64(m)}
			o.Namespace, o.Name = "default", store.OfferName(name, cluster)
			o.Cluster = inferenceapi.ImportedCluster{
				Name: cluster, RoutingMode: inferenceapi.EndpointMode, TargetPortNumber: 8000, FailureMode: "FailClose",
				EndpointPicker: &inferenceapi.EndpointPickerImport{Name: "picker"},
			}
			o.Cluster.EndpointPicker.Service = inferenceapi.ServiceImports{{
				Addresses: []string{fmt.Sprintf("10.%d.255.%d", m, p)}, Ports: []inferenceapi.Port{{Number: 9002}},
			}}
			for i := range 10 {
				address := fmt.Sprintf("10.%d.%d.%d", m, p, i+1)
				o.Cluster.Endpoints = append(o.Cluster.Endpoints, inferenceapi.ImportedEndpoint{Address: address})
			}
			ops = append(ops, store.Offers.Put(o))
		}
	}
	rev, err := s.Apply(ops...)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if out := translator.New(config()).Update(s.View(), rev.Changes); len(out.Reports) != len(ops) {
			b.Fatalf("%d reports, want %d", len(out.Reports), len(ops))
		}
	}
}
