package file

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func endpointSliceKind() *kind {
	return &kind{table: store.EndpointSlices, versions: []version{{"discovery.k8s.io/v1", nil}},
		check: checkEndpointSlice}
}

func checkEndpointSlice(o store.Object) []mistake {
	s := o.(*discoveryv1.EndpointSlice)
	var c checks
	c.oneOf("addressType", string(s.AddressType), "IPv4", "IPv6", "FQDN")
	for i, e := range s.Endpoints {
		field := at("endpoints", i) + ".addresses"
		if len(e.Addresses) == 0 {
			c.wrong(field, "is missing", "write at least one address")
		}
		for j, a := range e.Addresses {
			if s.AddressType == discoveryv1.AddressTypeFQDN {
				c.host(at(field, j), a)
			} else {
				c.ip(at(field, j), a)
			}
		}
	}
	for i, p := range s.Ports {
		field := at("ports", i)
		if p.Port != nil {
			c.port(field+".port", *p.Port)
		}
		if p.Protocol != nil {
			c.oneOf(field+".protocol", string(*p.Protocol), "TCP", "UDP", "SCTP")
		}
	}
	return c.found
}
