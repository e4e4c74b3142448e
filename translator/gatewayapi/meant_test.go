package gatewayapi_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

func TestBackend_SuggestsThePoolThatWasMeant(t *testing.T) {
	kind, port := gatewayv1.Kind("InferencePool"), gatewayv1.PortNumber(80)
	for want, ref := range map[string]gatewayv1.BackendObjectReference{
		"did you mean group: inference.networking.k8s.io?": {Name: "chat", Kind: &kind},
		"needs a port: Service default/chat; did you mean the InferencePool chat? Then write group: " +
			"inference.networking.k8s.io and kind: InferencePool": {Name: "chat"},
		"name one that exists; did you mean the InferencePool chat?": {Name: "chat", Port: &port},
	} {
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
		route.Spec.Rules = []gatewayv1.HTTPRouteRule{{
			BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: ref}}},
		}}
		gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		gw.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
		pool := &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chat"}}
		a := decide(view(t, []store.Op{
			store.Gateways.Put(gw), store.HTTPRoutes.Put(route), store.InferencePools.Put(pool),
		}), gatewayapi.Config{AnyClass: true}).attached[0]
		text := ""
		for _, f := range a.Findings {
			text += f.Problem + " " + f.Fix + "\n"
		}
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}
