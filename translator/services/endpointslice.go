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

// Endpoints lists the endpoints of a named port of a Service of ours by the Service's EndpointSlices, sorted: ready ones, or
// those that are terminating but still serve if no others are left (KEP-1669). key is "namespace/name" of the Service.
func Endpoints(r store.Reader, key, port string) []netip.AddrPort {
	return collect(store.EndpointSlices.By(r, store.ByService, key), port, func(*discoveryv1.EndpointSlice, netip.Addr) bool { return true })
}

// endpoints is Endpoints for a Service that a user wrote: without the addresses that may not become endpoints.
func endpoints(r store.Reader, svc *corev1.Service, list []*discoveryv1.EndpointSlice, port string) []netip.AddrPort {
	var policy *addresses.Policy // most Services do not need it
	return collect(list, port, func(slice *discoveryv1.EndpointSlice, ip netip.Addr) bool {
		if trusted(svc, slice) {
			return true
		}
		if policy == nil {
			is := addresses.Of(r)
			policy = &is
		}
		return policy.Sliced(slice.Namespace, ip) == ""
	})
}

// trusted reports whether Kubernetes maintains a slice: its endpoints are the pods that the Service selects.
func trusted(svc *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	return store.Generated(slice) && len(svc.Spec.Selector) > 0
}

// Outside lists which addresses of an EndpointSlice that Kubernetes did not make may not become endpoints, and why: one
// sentence each, without a period.
func Outside(r store.Reader, slice *discoveryv1.EndpointSlice) (out []string) {
	policy := addresses.Of(r)
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			ip, err := netip.ParseAddr(a)
			if err != nil {
				continue
			}
			if why := policy.Sliced(slice.Namespace, ip); why != "" {
				out = append(out, fmt.Sprintf("address %s %s", a, why))
			}
		}
	}
	return out
}

func collect(list []*discoveryv1.EndpointSlice, port string, allowed func(*discoveryv1.EndpointSlice, netip.Addr) bool) (out []netip.AddrPort) {
	var terminating []netip.AddrPort
	for _, slice := range list {
		ready, serving := sliceAddresses(slice, port, allowed)
		out, terminating = append(out, ready...), append(terminating, serving...)
	}
	if len(out) == 0 {
		out = terminating
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// sliceAddresses splits a slice's endpoints at the named port into ready ones and terminating ones that still serve.
func sliceAddresses(slice *discoveryv1.EndpointSlice, port string, allowed func(*discoveryv1.EndpointSlice, netip.Addr) bool) (ready, serving []netip.AddrPort) {
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
			if ip, err := netip.ParseAddr(a); err == nil && allowed(slice, ip) {
				*list = append(*list, netip.AddrPortFrom(ip.Unmap(), number))
			}
		}
	}
	return ready, serving
}
