package translator_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

func (c *chaos) listener(i int) gatewayv1.Listener {
	l := gatewayv1.Listener{Name: gatewayv1.SectionName(fmt.Sprint("l", i)),
		Port: pick[gatewayv1.PortNumber](c, 80, 80, 443, 443, 5432, 53), Protocol: gatewayv1.HTTPProtocolType}
	if h := c.hostname(); h != "" {
		l.Hostname = &h
	}
	switch l.Port {
	case 443:
		l.Protocol = pick(c, gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType)
		l.TLS = &gatewayv1.ListenerTLSConfig{
			CertificateRefs: []gatewayv1.SecretObjectReference{
				{Name: gatewayv1.ObjectName(fmt.Sprint("cert", c.IntN(2)))},
			},
		}
		if l.Protocol == gatewayv1.TLSProtocolType {
			l.TLS.Mode = ptr(pick(c, gatewayv1.TLSModeTerminate, gatewayv1.TLSModePassthrough))
		}
		if c.some(3) {
			l.TLS.CertificateRefs[0].Namespace = ptr[gatewayv1.Namespace]("other")
		}
	case 5432:
		l.Protocol, l.Hostname = pick(c, gatewayv1.TCPProtocolType, gatewayv1.UDPProtocolType), nil
	case 53:
		l.Protocol, l.Hostname = gatewayv1.UDPProtocolType, nil
	}
	from := pick(c, gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromSame,
		gatewayv1.NamespacesFromSelector)
	l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &from}}
	if from == gatewayv1.NamespacesFromSelector {
		l.AllowedRoutes.Namespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	}
	return l
}

func (c *chaos) age(meta *metav1.ObjectMeta) {
	if c.some(2) {
		meta.CreationTimestamp = metav1.Unix(int64(c.IntN(3)), 0)
	}
}

func (c *chaos) listenerSet() (store.Op, func(string) store.Op, string) {
	s := &gatewayv1.ListenerSet{ObjectMeta: c.numbered("set", 3)}
	c.age(&s.ObjectMeta)
	s.Spec.ParentRef = gatewayv1.ParentGatewayReference{
		Namespace: ptr[gatewayv1.Namespace]("default"), Name: gatewayv1.ObjectName(fmt.Sprint("gw", c.IntN(2))),
	}
	for i := range 1 + c.IntN(2) {
		s.Spec.Listeners = append(s.Spec.Listeners, gatewayv1.ListenerEntry(c.listener(i)))
	}
	return made(store.ListenerSets, s)
}

func (c *chaos) parents() (out gatewayv1.CommonRouteSpec) {
	for range 1 + c.IntN(2) {
		ref := gatewayv1.ParentReference{Namespace: ptr[gatewayv1.Namespace]("default"),
			Name: gatewayv1.ObjectName(fmt.Sprint("gw", c.IntN(2)))}
		if c.some(4) {
			ref.Kind, ref.Name = ptr[gatewayv1.Kind]("ListenerSet"), gatewayv1.ObjectName(fmt.Sprint("set", c.IntN(3)))
		}
		if c.some(4) {
			ref.SectionName = ptr(gatewayv1.SectionName(fmt.Sprint("l", c.IntN(4))))
		}
		if c.some(6) {
			ref.Port = ptr(pick[gatewayv1.PortNumber](c, 80, 443, 5432))
		}
		out.ParentRefs = append(out.ParentRefs, ref)
	}
	return out
}

func (c *chaos) hostnames() (out []gatewayv1.Hostname) {
	for range c.IntN(3) {
		if h := c.hostname(); h != "" {
			out = append(out, h)
		}
	}
	return out
}

func (c *chaos) grpcRoute() (store.Op, func(string) store.Op, string) {
	r := &gatewayv1.GRPCRoute{ObjectMeta: c.numbered("route", 4)} // HTTPRoutes have the same names
	c.age(&r.ObjectMeta)
	r.Spec.CommonRouteSpec, r.Spec.Hostnames = c.parents(), c.hostnames()
	for range c.IntN(3) {
		var rule gatewayv1.GRPCRouteRule
		for range c.IntN(3) {
			m := gatewayv1.GRPCRouteMatch{Method: &gatewayv1.GRPCMethodMatch{}}
			if c.some(2) {
				m.Method.Service = ptr(pick(c, "a.B", "a.Bee"))
			}
			if c.some(2) {
				m.Method.Method = ptr(pick(c, "Do", "DoMore"))
			}
			if c.some(3) {
				m.Method.Type = ptr(pick(c, gatewayv1.GRPCMethodMatchRegularExpression, gatewayv1.GRPCMethodMatchExact))
			}
			if c.some(3) {
				m.Headers = append(m.Headers, gatewayv1.GRPCHeaderMatch{Name: "X-Team", Value: "a"})
			}
			rule.Matches = append(rule.Matches, m)
		}
		for range c.IntN(3) {
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.GRPCBackendRef{BackendRef: c.backend().BackendRef})
		}
		r.Spec.Rules = append(r.Spec.Rules, rule)
	}
	return made(store.GRPCRoutes, r)
}

func (c *chaos) streamBackends() (out []gatewayv1.BackendRef) {
	for range 1 + c.IntN(2) {
		out = append(out, c.backend().BackendRef)
	}
	return out
}

func (c *chaos) tlsRoute() (store.Op, func(string) store.Op, string) {
	r := &gatewayv1.TLSRoute{ObjectMeta: c.numbered("tls", 3)}
	c.age(&r.ObjectMeta)
	r.Spec.CommonRouteSpec, r.Spec.Hostnames = c.parents(), c.hostnames()
	r.Spec.Rules = []gatewayv1.TLSRouteRule{{BackendRefs: c.streamBackends()}}
	return made(store.TLSRoutes, r)
}

func (c *chaos) tcpRoute() (store.Op, func(string) store.Op, string) {
	r := &gatewayv1.TCPRoute{ObjectMeta: c.numbered("tcp", 3)}
	c.age(&r.ObjectMeta)
	r.Spec.CommonRouteSpec = c.parents()
	r.Spec.Rules = []gatewayv1.TCPRouteRule{{BackendRefs: c.streamBackends()}}
	return made(store.TCPRoutes, r)
}

func (c *chaos) udpRoute() (store.Op, func(string) store.Op, string) {
	r := &gatewayv1.UDPRoute{ObjectMeta: c.numbered("udp", 3)}
	c.age(&r.ObjectMeta)
	r.Spec.CommonRouteSpec = c.parents()
	r.Spec.Rules = []gatewayv1.UDPRouteRule{{BackendRefs: c.streamBackends()}}
	return made(store.UDPRoutes, r)
}
