package translator_test

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// A Service's picker that this process cannot reach is unhealthy if all of its pools fail open.
func TestPool_LostPickerIsUnhealthyWhereAllItsPoolsFailOpen(t *testing.T) {
	s, tr := store.New(), translator.New(config())
	id := model.PickerCluster("default", "epp", 9002)
	apply := func(ops ...store.Op) corev3.HealthStatus {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		if out := tr.Update(s.View(), rev.Changes); out.Err != nil {
			t.Fatal(out.Err)
		}
		load := &endpointv3.ClusterLoadAssignment{}
		if err := proto.Unmarshal(pickerOf(t, tr, resource.Endpoints, id).Body(), load); err != nil {
			t.Fatal(err)
		}
		return load.Endpoints[0].LbEndpoints[0].HealthStatus
	}
	pool := func(name string, mode inferencev1.EndpointPickerFailureMode) store.Op {
		p := &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		p.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "llm"}
		p.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
		p.Spec.EndpointPickerRef = &inferencev1.EndpointPickerRef{
			Name: "epp", Port: &inferencev1.Port{Number: 9002}, FailureMode: mode,
		}
		return store.InferencePools.Put(p)
	}
	lost := func(lost bool) store.Op {
		return store.Dialects.Put(&store.Dialect{ObjectMeta: metav1.ObjectMeta{Name: id.String()}, Acknowledges: true,
			Lost: lost})
	}
	route := importRoute("r", "one")
	route.Spec.Rules[0].BackendRefs[0].Group, route.Spec.Rules[0].BackendRefs[0].Kind = ptr[gatewayv1.Group](
		"inference.networking.k8s.io"), ptr[gatewayv1.Kind]("InferencePool")
	service, slice := pickerService()
	if health := apply(store.AddressPolicies.Put(addresses.Unrestricted()),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				},
			}}), service, slice, pool("one", inferencev1.EndpointPickerFailOpen), store.HTTPRoutes.Put(route),
		lost(false)); health != corev3.HealthStatus_UNKNOWN {
		t.Errorf("%v before, want %v", health, corev3.HealthStatus_UNKNOWN)
	}
	if health := apply(lost(true)); health != corev3.HealthStatus_UNHEALTHY {
		t.Errorf("%v while it is lost, want %v", health, corev3.HealthStatus_UNHEALTHY)
	}
	if health := apply(pool("two", inferencev1.EndpointPickerFailClose)); health != corev3.HealthStatus_UNKNOWN {
		t.Errorf("%v while it is lost, and another pool fails closed, want %v", health, corev3.HealthStatus_UNKNOWN)
	}
}

// A picker that accepts calls but does not answer is unhealthy in every failure mode. Its cluster
// changes in place, so that Envoy ends the unanswered calls.
func TestPool_FrozenPickerIsUnhealthyAndItsClusterChangesInPlace(t *testing.T) {
	s, tr := store.New(), translator.New(config())
	id := model.PickerCluster("default", "epp", 9002)
	apply := func(ops ...store.Op) (name string, checks int, health corev3.HealthStatus) {
		t.Helper()
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		if out := tr.Update(s.View(), rev.Changes); out.Err != nil {
			t.Fatal(out.Err)
		}
		load, cluster := &endpointv3.ClusterLoadAssignment{}, &clusterv3.Cluster{}
		for kind, m := range map[resource.Type]proto.Message{resource.Endpoints: load, resource.Cluster: cluster} {
			if err := proto.Unmarshal(pickerOf(t, tr, kind, id).Body(), m); err != nil {
				t.Fatal(err)
			}
		}
		if at := cluster.CommonLbConfig.GetHealthyPanicThreshold(); at == nil || at.Value != 0 {
			t.Errorf("the panic threshold is %v, want 0: Envoy would call the picker all the same", at)
		}
		return cluster.Name, len(cluster.HealthChecks), load.Endpoints[0].LbEndpoints[0].HealthStatus
	}
	pool := &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	pool.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "llm"}
	pool.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
	pool.Spec.EndpointPickerRef = &inferencev1.EndpointPickerRef{
		Name: "epp", Port: &inferencev1.Port{Number: 9002}, FailureMode: inferencev1.EndpointPickerFailClose,
	}
	frozen := func(silent bool) store.Op {
		return store.Dialects.Put(&store.Dialect{ObjectMeta: metav1.ObjectMeta{Name: id.String()}, Acknowledges: true,
			Frozen: silent})
	}
	route := importRoute("r", "one")
	route.Spec.Rules[0].BackendRefs[0].Group, route.Spec.Rules[0].BackendRefs[0].Kind = ptr[gatewayv1.Group](
		"inference.networking.k8s.io"), ptr[gatewayv1.Kind]("InferencePool")
	service, slice := pickerService()
	before, checks, health := apply(store.AddressPolicies.Put(addresses.Unrestricted()),
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
					{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
				},
			}}), service, slice, store.InferencePools.Put(pool), store.HTTPRoutes.Put(route), frozen(false))
	if checks != 1 || health != corev3.HealthStatus_UNKNOWN {
		t.Errorf("before: %d health checks, %v, want 1 and %v", checks, health, corev3.HealthStatus_UNKNOWN)
	}
	if name, checks, health := apply(frozen(true)); name != before || checks != 0 ||
		health != corev3.HealthStatus_UNHEALTHY {
		t.Errorf("while it is frozen: %s (before %s), %d health checks, %v; want the same name, 0, unhealthy",
			name, before, checks, health)
	}
	if name, checks, health := apply(frozen(false)); name != before || checks != 1 ||
		health != corev3.HealthStatus_UNKNOWN {
		t.Errorf("afterwards: %s (before %s), %d health checks, %v; want the same name, 1, unknown",
			name, before, checks, health)
	}
}

func pickerService() (service, slice store.Op) {
	meta := metav1.ObjectMeta{Namespace: "default", Name: "epp"}
	named := meta
	named.Labels = map[string]string{discoveryv1.LabelServiceName: "epp"}
	return store.Services.Put(&corev1.Service{ObjectMeta: meta,
			Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{{Port: 9002, AppProtocol: ptr("kubernetes.io/h2c")}},
			}}),
		store.EndpointSlices.Put(&discoveryv1.EndpointSlice{
			ObjectMeta: named, AddressType: discoveryv1.AddressTypeIPv4,
			Ports:     []discoveryv1.EndpointPort{{Port: ptr[int32](9002)}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.9"}}},
		})
}

// If an exporting cluster fails open, Envoys bypass its picker once this process cannot reach the
// picker. Only the endpoints change, because a changed cluster would end calls in flight. This
// process keeps trying to connect.
func TestImport_LostPickerIsUnhealthyWhereItsClusterFailsOpen(t *testing.T) {
	id := model.ImportPickerCluster("default", "chat", "east")
	for mode, want := range map[string]corev3.HealthStatus{
		"FailOpen": corev3.HealthStatus_UNHEALTHY, "FailClose": corev3.HealthStatus_UNKNOWN,
	} {
		for _, variant := range []model.ClusterVariant{model.Plain, model.HealthVariant} {
			s, tr := store.New(), translator.New(config())
			apply := func(ops ...store.Op) translator.Output {
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
			dialect := func(lost bool) store.Op {
				return store.Dialects.Put(&store.Dialect{
					ObjectMeta: metav1.ObjectMeta{Name: id.String()}, Health: variant == model.HealthVariant,
					Lost: lost,
				})
			}
			apply(store.AddressPolicies.Put(addresses.Unrestricted()),
				store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
					Spec: gatewayv1.GatewaySpec{
						GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
							{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
						},
					}}), offerFailing(mode, "chat", "east", "10.1.0.1"), store.HTTPRoutes.Put(importRoute("r", "chat")),
				dialect(false))
			health := func() corev3.HealthStatus {
				t.Helper()
				load := &endpointv3.ClusterLoadAssignment{}
				if err := proto.Unmarshal(pickerOf(t, tr, resource.Endpoints, id.As(variant)).Body(),
					load); err != nil {
					t.Fatal(err)
				}
				return load.Endpoints[0].LbEndpoints[0].HealthStatus
			}
			if got := health(); got != corev3.HealthStatus_UNKNOWN {
				t.Errorf("%s: %v before, want %v", mode, got, corev3.HealthStatus_UNKNOWN)
			}
			out := apply(dialect(true))
			if got := health(); got != want {
				t.Errorf("%s: %v while it is lost, want %v", mode, got, want)
			}
			if len(out.Pickers)+len(out.PickersGone) != 0 {
				t.Errorf("%s: %v and %v are to be probed otherwise, want no change", mode, out.Pickers, out.PickersGone)
			}
			for _, d := range out.Deltas {
				for _, r := range d.Upserts {
					if r.Type != resource.Endpoints || !strings.Contains(r.Name, "import-picker") {
						t.Errorf("%s: %v changed, want endpoints of import-picker alone", mode, r.Ref)
					}
				}
			}
			if apply(dialect(false)); health() != corev3.HealthStatus_UNKNOWN {
				t.Errorf("%s: %v once it is back, want %v", mode, health(), corev3.HealthStatus_UNKNOWN)
			}
		}
	}
}
