package services

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
)

// Port returns a Service's port by its number, or nil. Of several ports with the number, it prefers
// a port with the transport protocol.
func Port(svc *corev1.Service, number int32, transport corev1.Protocol) *corev1.ServicePort {
	var found *corev1.ServicePort
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.Port == number && (found == nil || transportOf(found.Protocol) != transport) {
			found = p
		}
	}
	return found
}

func transportOf(p corev1.Protocol) corev1.Protocol { return cmp.Or(p, corev1.ProtocolTCP) }

// Transport returns the transport protocol of an Envoy cluster of a Service.
func Transport(id model.ClusterID) corev1.Protocol {
	if id.Kind == model.UDPKind {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// TransportOf returns the transport protocol of a kind of route.
func TransportOf(kind string) corev1.Protocol {
	if kind == "UDPRoute" {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// Protocol returns the protocol of a Service's port for a kind of route, by the port's appProtocol
// (KEP-3726 and the names in common use). The default is HTTP/1.1, or h2c for a GRPCRoute. False
// means that the route cannot use the port. secured means that a BackendTLSPolicy names the CAs to
// trust; a protocol with TLS requires such a policy.
func Protocol(p *corev1.ServicePort, kind string, secured bool) (model.Protocol, bool) {
	if transportOf(p.Protocol) != TransportOf(kind) {
		return "", false
	}
	if kind == "UDPRoute" {
		return model.UDP, true
	}
	if kind == "TLSRoute" || kind == "TCPRoute" {
		return model.TCP, true
	}
	var name string
	if p.AppProtocol != nil {
		name = *p.AppProtocol
	}
	switch strings.ToLower(name) {
	case "https", "tls", "kubernetes.io/wss":
		if !secured {
			return "", false
		}
		fallthrough
	case "", "tcp":
		if kind == "GRPCRoute" {
			return model.H2C, true
		}
		return model.HTTP1, true
	case "http", "kubernetes.io/ws":
		return model.HTTP1, kind != "GRPCRoute"
	case "kubernetes.io/h2c", "h2c", "http2", "grpc":
		return model.H2C, true
	}
	return "", false
}

// ProtocolText returns a port's declared protocol for messages.
func ProtocolText(p *corev1.ServicePort) string {
	if p.AppProtocol != nil && *p.AppProtocol != "" {
		return "appProtocol " + *p.AppProtocol
	}
	return string(transportOf(p.Protocol))
}

// External resolves a Service of type ExternalName with find, which is Lookup or Mention. It
// returns false if such Services have no endpoints here.
func External(r store.Reader, svc *corev1.Service, find func(r store.Reader, address string) Host) (Host, bool) {
	if !addresses.Of(r).ExternalName {
		return Host{}, false
	}
	return find(r, svc.Spec.ExternalName), true
}

// Addresses lists the endpoints of a Service's port. outside has the keys of EndpointSlices with
// omitted addresses. If there are no EndpointSlices and slicesOnly is false, the Service's selector
// chooses Pods and ModelServers.
func Addresses(r store.Reader, svc *corev1.Service, number int32, transport corev1.Protocol, slicesOnly bool) (
	out []netip.AddrPort, outside []string) {
	port := Port(svc, number, transport)
	if port == nil || transportOf(port.Protocol) != transport {
		return nil, nil
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		host, _ := External(r, svc, Lookup)
		for _, ip := range host.Addresses {
			out = append(out, netip.AddrPortFrom(ip, uint16(number)))
		}
		return out, nil
	}
	list := store.EndpointSlices.By(r, store.ByService, store.ID(svc))
	if len(list) > 0 || slicesOnly {
		return endpoints(r, svc, list, port)
	}
	return selected(r, svc, port), nil
}
