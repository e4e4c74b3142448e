package translator_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

func podIn(i int, zone string) store.Op {
	p := &corev1.Pod{ObjectMeta: inDefault(fmt.Sprint("pod-", i))}
	p.Labels = map[string]string{"app": "a", "zone": zone}
	p.Status.PodIP = fmt.Sprintf("10.100.%d.%d", 100+i/200, 1+i%200)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return store.Pods.Put(p)
}

// Endpoints change often. An external picker's subset is listed in one route configuration, which
// changes. Penstock's picker reads the labels itself, so nothing else changes.
func TestSubset_ChangeOfEndpointsChangesNoListener(t *testing.T) {
	const servers = 1000
	pods := make([]store.Op, servers)
	for i := range pods {
		pods[i] = podIn(i, "east")
	}
	for _, external := range []bool{false, true} {
		t.Run(fmt.Sprint("external ", external), func(t *testing.T) {
			pool := &inferencev1.InferencePool{ObjectMeta: inDefault("chat"), Spec: inferencev1.InferencePoolSpec{
				Selector: inferencev1.LabelSelector{
					MatchLabels: map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "a"},
				},
				TargetPorts: []inferencev1.Port{{Number: 8000}},
			}}
			if external {
				pool.Spec.EndpointPickerRef = &inferencev1.EndpointPickerRef{
					Name: "epp", Port: &inferencev1.Port{Number: 9002},
				}
			}
			epp := &corev1.Service{ObjectMeta: inDefault("epp"),
				Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9002}}}}

			policy := &v1alpha1.PoolPolicy{ObjectMeta: inDefault("east"),
				Spec: v1alpha1.PoolPolicySpec{
					Subset: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "east"}},
				}}
			filter := gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterExtensionRef,
				ExtensionRef: &gatewayv1.LocalObjectReference{Group: v1alpha1.Group, Kind: "PoolPolicy", Name: "east"}}
			s := store.New()
			if _, err := s.Apply(append(pods, store.InferencePools.Put(pool), store.Services.Put(epp),
				store.PoolPolicies.Put(policy),
				store.HTTPRoutes.Put(chatRoute("east", filter)), store.HTTPRoutes.Put(chatRoute("all")),
				store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: inDefault("gw"), Spec: gatewayv1.GatewaySpec{
					GatewayClassName: "penstock",
					Listeners: []gatewayv1.Listener{
						{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType},
					},
				}}))...); err != nil {
				t.Fatal(err)
			}
			tr := translator.New(config())
			if out := tr.Update(s.View(), store.Everything(s.View())); out.Err != nil {
				t.Fatal(out.Err)
			}
			for _, r := range tr.Resources("default/gw") {
				// The list occurs three times: in the routes for streams, for upgrades, and for
				// other requests.
				if size := len(r.Body()); r.Type == resource.RouteConfiguration &&
					(size > 80*servers || external != (size > 60*servers)) {
					t.Errorf("%s has %d bytes, want at most %d, and more than %d if and only if the picker is external",
						r.Name, len(r.Body()), 80*servers, 60*servers)
				}
			}
			changes, err := s.Apply(podIn(servers-1, "west"))
			if err != nil {
				t.Fatal(err)
			}
			out := tr.Update(s.View(), changes.Changes)
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			var changed []string
			for _, d := range out.Deltas {
				for _, r := range d.Upserts {
					changed = append(changed, r.Ref.String())
				}
			}
			want := []string{}
			if external {
				want = []string{
					resource.Ref{Type: resource.RouteConfiguration, Name: model.RoutesName("http/80")}.String()}
			}
			if !slices.Equal(changed, want) && len(changed)+len(want) > 0 {
				t.Errorf("another label of an endpoint changes %v, want %v", changed, want)
			}
		})
	}
}

func inDefault(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func chatRoute(name string, filters ...gatewayv1.HTTPRouteFilter) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: inDefault(name)}
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw"}}
	r.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(name + ".example")}
	backend := gatewayv1.HTTPBackendRef{Filters: filters}
	backend.Group, backend.Kind, backend.Name = ptr[gatewayv1.Group]("inference.networking.k8s.io"),
		ptr[gatewayv1.Kind]("InferencePool"), "chat"
	r.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{backend}}}
	return r
}
