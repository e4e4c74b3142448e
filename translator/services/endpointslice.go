package services

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/addresses"
)

// Endpoints returns, sorted, the endpoints of a port of a Service ("namespace/name"), by the port's
// name: ready endpoints or, if no endpoint is ready, terminating endpoints that still serve
// (KEP-1669).
func Endpoints(r store.Reader, key, port string) []netip.AddrPort {
	return collect(store.EndpointSlices.By(r, store.ByService, key), &corev1.ServicePort{Name: port},
		func(*discoveryv1.EndpointSlice) judge { return anywhere })
}

func endpoints(r store.Reader, svc *corev1.Service, list []*discoveryv1.EndpointSlice, port *corev1.ServicePort) (
	out []netip.AddrPort, outside []string) {
	var policy *addresses.Policy
	out = collect(list, port, func(slice *discoveryv1.EndpointSlice) judge {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			outside = append(outside, store.ID(slice))
			return anywhere
		}
		if trusted(svc, slice) {
			return anywhere
		}
		if policy == nil {
			current := addresses.Of(r)
			policy = &current
		}
		all := parsed(slice)
		judged := policy.Slice(slice.Namespace, all)
		allowed := func(ip netip.Addr) bool { return judged.Outside(ip) == "" }
		if !slices.ContainsFunc(all, func(ip netip.Addr) bool { return !allowed(ip) }) {
			return anywhere
		}
		outside = append(outside, store.ID(slice))
		return allowed
	})
	return out, outside
}

type judge func(netip.Addr) bool

func anywhere(netip.Addr) bool { return true }

func trusted(svc *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	return store.Generated(slice) && len(svc.Spec.Selector) > 0
}

// Outside returns, for each address of an EndpointSlice that may not become an endpoint, the reason
// as a sentence without a period (addresses.Slice).
func Outside(r store.Reader, slice *discoveryv1.EndpointSlice) (out []string) {
	judged := addresses.Of(r).Slice(slice.Namespace, parsed(slice))
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			ip, err := netip.ParseAddr(a)
			if err != nil {
				continue
			}
			if why := judged.Outside(ip); why != "" {
				out = append(out, fmt.Sprintf("address %s %s", a, why))
			}
		}
	}
	return out
}

func parsed(slice *discoveryv1.EndpointSlice) []netip.Addr {
	n := 0
	for _, e := range slice.Endpoints {
		n += len(e.Addresses)
	}
	list := make([]netip.Addr, 0, n)
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil {
				list = append(list, ip)
			}
		}
	}
	return list
}

func collect(list []*discoveryv1.EndpointSlice, port *corev1.ServicePort,
	judgeOf func(*discoveryv1.EndpointSlice) judge) (out []netip.AddrPort) {
	var terminating []netip.AddrPort
	for _, slice := range list {
		ready, serving := sliceAddresses(slice, port, judgeOf(slice))
		out, terminating = append(out, ready...), append(terminating, serving...)
	}
	if len(out) == 0 {
		out = terminating
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

func sliceAddresses(slice *discoveryv1.EndpointSlice, port *corev1.ServicePort, allowed judge) (ready,
	serving []netip.AddrPort) {
	var number uint16
	for _, p := range slice.Ports {
		if p.Protocol != nil && transportOf(*p.Protocol) != transportOf(port.Protocol) ||
			p.Protocol == nil && transportOf(port.Protocol) != corev1.ProtocolTCP {
			continue
		}
		if p.Port != nil && (p.Name == nil && port.Name == "" || p.Name != nil && *p.Name == port.Name) {
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
			if ip, err := netip.ParseAddr(a); err == nil && allowed(ip) {
				*list = append(*list, netip.AddrPortFrom(ip.Unmap(), number))
			}
		}
	}
	return ready, serving
}
