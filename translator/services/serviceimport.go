package services

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// Backend is a Service or a ServiceImport (GEP-1748); their ports have the same meaning.
type Backend struct {
	Ref report.Ref
	*corev1.Service
	imported []string
}

// IsServiceImport reports whether ref is a ServiceImport.
func IsServiceImport(ref report.Ref) bool {
	return ref.Group == store.ServiceImports.Group() && ref.Kind == store.ServiceImports.Kind()
}

// Find returns a reference's backend. It returns false for a missing object or another kind.
func Find(r store.Reader, ref report.Ref) (*Backend, bool) {
	switch {
	case ref.Group == "" && ref.Kind == store.Services.Kind():
		svc, ok := store.Services.Get(r, ref.Key())
		if !ok {
			return nil, false
		}
		return &Backend{Ref: ref, Service: svc}, true
	case IsServiceImport(ref):
		imp, ok := store.ServiceImports.Get(r, ref.Key())
		if !ok {
			return nil, false
		}
		svc := &corev1.Service{ObjectMeta: imp.ObjectMeta}
		for _, p := range imp.Spec.Ports {
			svc.Spec.Ports = append(svc.Spec.Ports,
				corev1.ServicePort{Name: p.Name, Port: p.Port, Protocol: p.Protocol, AppProtocol: p.AppProtocol})
		}
		return &Backend{Ref: ref, Service: svc, imported: imp.Spec.IPs}, true
	}
	return nil, false
}

// Of returns the backend of an Envoy cluster, or false.
func Of(r store.Reader, id model.ClusterID) (*Backend, bool) { return Find(r, RefOf(id)) }

// RefOf returns the Service or ServiceImport of an Envoy cluster.
func RefOf(id model.ClusterID) report.Ref {
	if id.Variant == model.ImportedVariant {
		return store.RefOf(store.ServiceImports, id.Key())
	}
	return store.RefOf(store.Services, id.Key())
}

// Addresses lists the endpoints of one port, like the function Addresses. If the cluster set's
// controller has made no EndpointSlices for a ServiceImport, the endpoints are the allowed
// addresses in the ServiceImport itself.
func (b *Backend) Addresses(r store.Reader, number int32, transport corev1.Protocol, slicesOnly bool) (
	out []netip.AddrPort, outside []string) {
	if !IsServiceImport(b.Ref) {
		return Addresses(r, b.Service, number, transport, slicesOnly)
	}
	port := Port(b.Service, number, transport)
	if port == nil || transportOf(port.Protocol) != transport {
		return nil, nil
	}
	if list := store.EndpointSlices.By(r, store.ByService,
		store.ServiceImportKey(b.Ref.Namespace, b.Ref.Name)); len(list) > 0 {
		return endpoints(r, b.Service, list, port)
	}
	for _, ip := range b.imported {
		for _, a := range Lookup(r, ip).Addresses {
			out = append(out, netip.AddrPortFrom(a, uint16(number)))
		}
	}
	return out, nil
}

// Outside returns why an address in a ServiceImport itself may not become an endpoint, as a
// sentence without a period, or "".
func (b *Backend) Outside(r store.Reader) string {
	if IsServiceImport(b.Ref) &&
		len(store.EndpointSlices.By(r, store.ByService, store.ServiceImportKey(b.Ref.Namespace, b.Ref.Name))) > 0 {
		return ""
	}
	for _, ip := range b.imported {
		if why := Lookup(r, ip).Outside; why != "" {
			return why
		}
	}
	return ""
}
