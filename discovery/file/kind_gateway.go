package file

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func gatewayKind() *kind {
	return &kind{
		table: store.Gateways,
		versions: []version{{"gateway.networking.k8s.io/v1", ourClass},
			{"gateway.networking.k8s.io/v1beta1", ourClass}},
		crd:   "gateways",
		check: checkGateway,
	}
}

// protocols are the core protocols of Gateway API; others have a domain prefix (ProtocolType:
// "Implementations can define").
var protocols = []string{"HTTP", "HTTPS", "TLS", "TCP", "UDP"}

func checkGateway(o store.Object) (out []mistake) {
	for i, l := range o.(*gatewayv1.Gateway).Spec.Listeners {
		out = append(out, checkProtocol(at("spec.listeners", i)+".protocol", l.Protocol)...)
	}
	return out
}

func checkProtocol(field string, protocol gatewayv1.ProtocolType) []mistake {
	p := string(protocol)
	if slices.Contains(protocols, p) || strings.Contains(p, "/") {
		return nil
	}
	return []mistake{wrong(field, "is not a known protocol: "+quote(p), "write one of "+strings.Join(protocols, ", "))}
}

// ourClass sets the class of a Gateway without one: a Gateway in a folder that Penstock reads
// belongs to Penstock.
func ourClass(d *draft) {
	if spec, ok := d.obj["spec"].(map[string]any); ok && spec["gatewayClassName"] == nil {
		spec["gatewayClassName"] = "penstock"
	}
}
