package file

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// protocols are the core listener protocols of Gateway API. Other protocols have a domain prefix
// (ProtocolType).
var protocols = []string{"HTTP", "HTTPS", "TLS", "TCP", "UDP"}

func checkGateway(c *checks, g *gatewayv1.Gateway) {
	for i, l := range g.Spec.Listeners {
		c.protocol(i, string(l.Protocol))
	}
}

func checkListenerSet(c *checks, s *gatewayv1.ListenerSet) {
	for i, l := range s.Spec.Listeners {
		c.protocol(i, string(l.Protocol))
	}
}

func (c *checks) protocol(listener int, p string) {
	if !slices.Contains(protocols, p) && !strings.Contains(p, "/") {
		c.wrong(at("spec.listeners", listener)+".protocol", "is not a known protocol: "+quote(p),
			"write one of "+strings.Join(protocols, ", "))
	}
}

// ourClass sets a missing gatewayClassName to penstock. A Gateway in a folder that Penstock reads
// belongs to Penstock.
func ourClass(d *draft) {
	if spec, ok := d.obj["spec"].(map[string]any); ok && spec["gatewayClassName"] == nil {
		spec["gatewayClassName"] = "penstock"
	}
}
