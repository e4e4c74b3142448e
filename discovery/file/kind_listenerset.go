package file

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func listenerSetKind() *kind {
	return &kind{
		table:    store.ListenerSets,
		versions: []version{{"gateway.networking.k8s.io/v1", nil}},
		crd:      "listenersets",
		check:    checkListenerSet,
	}
}

func checkListenerSet(o store.Object) (out []mistake) {
	for i, l := range o.(*gatewayv1.ListenerSet).Spec.Listeners {
		out = append(out, checkProtocol(at("spec.listeners", i)+".protocol", l.Protocol)...)
	}
	return out
}
