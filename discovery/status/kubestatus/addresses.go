package kubestatus

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// Reached returns the addresses that a Gateway's status has or will get. port maps a port at which
// the proxies listen to the port at these addresses; 0: no Service exposes the port yet.
func (w *Writer) Reached(r store.Reader, ref report.Ref) (addresses []string, port func(bound uint16) uint16) {
	gw, ok := store.Gateways.Get(r, ref.Key())
	if !ok {
		return nil, func(uint16) uint16 { return 0 }
	}
	var current []gatewayv1.GatewayStatusAddress
	if live, ok := w.cfg.Source.Live(ref); ok {
		current = live.Status.(*gatewayv1.GatewayStatus).Addresses
	}
	reported, _ := w.cfg.Board.Get(ref)
	services := store.Services.By(r, store.ByGateway, ref.Key())
	for _, a := range gatewayAddresses(gw, reported, services, current) {
		addresses = append(addresses, a.Value)
	}
	var own []string
	for _, a := range usable(serviceAddresses(services)) {
		own = append(own, a.Value)
	}
	atNodes := !slices.Equal(addresses, own)
	return addresses, func(bound uint16) uint16 { return exposed(services, bound, atNodes) }
}

// exposed returns the port at which the Services expose a port of the proxies. Without a Service,
// it returns bound.
func exposed(services []*corev1.Service, bound uint16, atNodes bool) uint16 {
	if len(services) == 0 {
		return bound
	}
	for _, s := range services {
		for _, p := range s.Spec.Ports {
			target := cmp.Or(p.TargetPort.IntVal, p.Port)
			switch {
			case target != int32(bound) || p.Protocol == corev1.ProtocolUDP:
			case s.Spec.Type == corev1.ServiceTypeNodePort && atNodes:
				if p.NodePort > 0 {
					return uint16(p.NodePort)
				}
			default:
				return uint16(p.Port)
			}
		}
	}
	return 0
}

func gatewayAddresses(gw *gatewayv1.Gateway, reported report.Report, services []*corev1.Service,
	current []gatewayv1.GatewayStatusAddress) []gatewayv1.GatewayStatusAddress {
	known := usable(reported.Addresses)
	nodePort := slices.ContainsFunc(services, func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeNodePort
	})
	condition := func(typ gatewayv1.GatewayConditionType) *report.Condition {
		return report.Find(reported.Conditions, string(typ))
	}
	switch {
	case len(services) == 0:
		// Proxies without a Service are external. Their addresses are in their EnvoyFleet, or in
		// the Gateway's spec.
		if accepted := condition(gatewayv1.GatewayConditionAccepted); len(known) > 0 ||
			accepted != nil && accepted.Status == report.False {
			return known
		}
		return usable(requested(gw))
	case !nodePort:
		return usable(serviceAddresses(services))
	case len(known) > 0:
		return known
	case len(current) > 0: // a new leader keeps the last addresses until xds/fleet has reported
		return current
	}
	if p := condition(gatewayv1.GatewayConditionProgrammed); p != nil && p.Status == report.False {
		return nil
	}
	return usable(serviceAddresses(services))
}

// requested returns the IP addresses in a Gateway's spec. External proxies do not support its host
// names.
func requested(gw *gatewayv1.Gateway) (out []string) {
	for _, a := range gw.Spec.Addresses {
		if a.Type == nil || *a.Type == gatewayv1.IPAddressType {
			out = append(out, a.Value)
		}
	}
	return out
}

// serviceAddresses returns the addresses of Services for clients. For a NodePort Service, it
// returns the cluster IPs, because the nodes' addresses are unknown here.
func serviceAddresses(services []*corev1.Service) (out []string) {
	for _, s := range services {
		exposed := report.Service{Type: string(s.Spec.Type), ClusterIPs: s.Spec.ClusterIPs,
			ExternalIPs: s.Spec.ExternalIPs}
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			exposed.Type = string(corev1.ServiceTypeClusterIP)
		}
		if len(exposed.ClusterIPs) == 0 {
			exposed.ClusterIPs = []string{s.Spec.ClusterIP}
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			exposed.LoadBalancer = append(exposed.LoadBalancer, in.IP, in.Hostname)
		}
		out = append(out, exposed.Addresses()...)
	}
	return out
}

// usable returns the distinct addresses that a Gateway's status may have. It omits the unspecified
// address, because no client can connect to it.
func usable(addresses []string) (out []gatewayv1.GatewayStatusAddress) {
	for _, a := range addresses {
		typ := gatewayv1.AddressType(report.AddressType(a))
		ip, err := netip.ParseAddr(a)
		unspecified := err == nil && ip.IsUnspecified()
		known := slices.ContainsFunc(out, func(o gatewayv1.GatewayStatusAddress) bool { return o.Value == a })
		if typ != "" && !unspecified && !known && len(out) < report.MaxAddresses {
			out = append(out, gatewayv1.GatewayStatusAddress{Type: &typ, Value: a})
		}
	}
	return out
}
