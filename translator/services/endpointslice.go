package services

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

// Endpoints lists the endpoints of a Service's named port by the Service's EndpointSlices, sorted: ready ones, or those
// that are terminating but still serve if no others are left (KEP-1669). key is "namespace/name" of the Service.
func Endpoints(r store.Reader, key, port string) []netip.AddrPort {
	return endpoints(store.EndpointSlices.By(r, store.ByService, key), port)
}

func endpoints(list []*discoveryv1.EndpointSlice, port string) (out []netip.AddrPort) {
	var terminating []netip.AddrPort
	for _, slice := range list {
		ready, serving := addresses(slice, port)
		out, terminating = append(out, ready...), append(terminating, serving...)
	}
	if len(out) == 0 {
		out = terminating
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// addresses splits a slice's endpoints at the named port into ready ones and terminating ones that still serve.
func addresses(slice *discoveryv1.EndpointSlice, port string) (ready, serving []netip.AddrPort) {
	var number uint16
	for _, p := range slice.Ports {
		if p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port) {
			number = uint16(*p.Port)
		}
	}
	if number == 0 {
		return nil, nil
	}
	for _, e := range slice.Endpoints {
		list := &ready
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			if e.Conditions.Serving == nil || !*e.Conditions.Serving {
				continue
			}
			list = &serving
		}
		for _, a := range e.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil {
				*list = append(*list, netip.AddrPortFrom(ip.Unmap(), number))
			}
		}
	}
	return ready, serving
}
