package file

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func gatewayKind() *kind {
	return &kind{
		table:    store.Gateways,
		versions: []version{{"gateway.networking.k8s.io/v1", ourClass}, {"gateway.networking.k8s.io/v1beta1", ourClass}},
		crd:      "gateways",
		check:    checkGateway,
	}
}

// protocols are those that Gateway API names; others carry a domain (ProtocolType: "Implementations can define").
var protocols = []string{"HTTP", "HTTPS", "TLS", "TCP", "UDP"}

func checkGateway(o store.Object) (out []mistake) {
	for i, l := range o.(*gatewayv1.Gateway).Spec.Listeners {
		p := string(l.Protocol)
		if slices.Contains(protocols, p) || strings.Contains(p, "/") {
			continue
		}
		out = append(out, wrong(fmt.Sprintf("spec.listeners[%d].protocol", i), "is not a protocol: "+quote(p), "write one of "+strings.Join(protocols, ", ")))
	}
	return out
}

// ourClass: a Gateway in a folder that Penstock reads is meant for it; no class need be named.
func ourClass(d *draft) {
	if spec, ok := d.obj["spec"].(map[string]any); ok && spec["gatewayClassName"] == nil {
		spec["gatewayClassName"] = "penstock"
	}
}
