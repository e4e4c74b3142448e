package translator_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1beta1 "sigs.k8s.io/gateway-api/apis/v1beta1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
)

// chaos draws operations on few objects, so that they often interact.
type chaos struct {
	*rand.Rand
	words *rand.Rand   // draws regular expressions and budgets
	certs [2][2][]byte // pairs of certificate and key
}

func pick[T any](c *chaos, list ...T) T { return list[c.IntN(len(list))] }

func (c *chaos) some(n int) bool { return c.IntN(n) == 0 }

func (c *chaos) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: pick(c, "default", "default", "other"), Name: name}
}

func (c *chaos) numbered(kind string, n int) metav1.ObjectMeta {
	return c.meta(fmt.Sprint(kind, c.IntN(n)))
}

func (c *chaos) op() store.Op {
	kinds := []func() (store.Op, func(id string) store.Op, string){
		c.gateway, c.route, c.route, c.route, c.grpcRoute, c.tlsRoute, c.tcpRoute, c.udpRoute, c.udpRoute,
		c.listenerSet, c.service, c.slice, c.pool, c.pool, c.imported, c.imported, c.servers, c.pod,
		c.policy, c.policy, c.secret, c.grant, c.configMap, c.tlsPolicy, c.tlsPolicy, c.accessPolicy, c.namespace,
		c.host, c.addresses,
		c.learned, c.offer, c.offer, c.failback, c.dialect, c.class, c.model, c.model, c.rewrite, c.rewrite,
		c.inferenceObjective, c.fleet, c.membership, c.export,
	}
	put, del, id := kinds[c.IntN(len(kinds))]()
	if c.some(4) {
		return del(id)
	}
	return put
}

func made[T store.Object](t *store.Table[T], obj T) (store.Op, func(string) store.Op, string) {
	return t.Put(obj), t.Delete, store.ID(obj)
}

func ptr[T any](v T) *T { return &v }

func (c *chaos) gateway() (store.Op, func(string) store.Op, string) {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("gw", c.IntN(2))}}
	g.Spec.GatewayClassName = pick[gatewayv1.ObjectName](c, "penstock", "penstock", "penstock", "other")
	if c.some(5) {
		g.Spec.Infrastructure = fleetRef(fmt.Sprint("fleet", c.IntN(2)))
	}
	for i := range 1 + c.IntN(4) {
		g.Spec.Listeners = append(g.Spec.Listeners, c.listener(i))
	}
	if c.some(2) {
		g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{
			Namespaces: &gatewayv1.ListenerNamespaces{
				From: ptr(pick(c, gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromSame)),
			},
		}
	}
	if c.some(3) {
		g.Spec.TLS = c.gatewayTLS()
	}
	return made(store.Gateways, g)
}

func (c *chaos) membership() (store.Op, func(string) store.Op, string) {
	m := &store.Membership{ObjectMeta: metav1.ObjectMeta{Name: store.OwnMembership}, Cluster: "west",
		Chain: c.certs[0][0], Key: c.certs[0][1], PeerPort: pick[uint16](c, 0, 443, 15443, 15443)}
	for _, name := range []string{"east", "north"} {
		if c.some(2) {
			m.Members = append(m.Members, store.Member{Name: name, Bundle: c.certs[c.IntN(2)][0]})
		}
	}
	return made(store.Memberships, m)
}

func (c *chaos) export() (store.Op, func(string) store.Op, string) {
	e := &store.Export{ObjectMeta: c.numbered("pool", 3)}
	for _, name := range []string{"east", "north"} {
		if c.some(2) {
			e.Members = append(e.Members, name)
		}
	}
	return made(store.Exports, e)
}

func (c *chaos) fleet() (store.Op, func(string) store.Op, string) {
	f := &v1alpha1.EnvoyFleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("fleet", c.IntN(2))}}
	f.Spec.Image = pick(c, "", "envoy:a", "envoy:b")
	if c.words.IntN(3) > 0 {
		f.Spec.Routes = &v1alpha1.FleetRoutes{BudgetMilliseconds: 1}
	}
	return made(store.EnvoyFleets, f)
}

// tenants returns a Gateway, and routes of another namespace, some of which exceed the Gateway's
// budget.
func (c *chaos) tenants() (ops []store.Op) {
	g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw0"}}
	g.Spec.GatewayClassName = "penstock"
	for i := range 2 {
		l := c.listener(i)
		l.AllowedRoutes.Namespaces = &gatewayv1.RouteNamespaces{From: ptr(gatewayv1.NamespacesFromAll)}
		g.Spec.Listeners = append(g.Spec.Listeners, l)
	}
	g.Spec.Infrastructure = fleetRef("fleet0")
	fleet := &v1alpha1.EnvoyFleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fleet0"}}
	fleet.Spec.Routes = &v1alpha1.FleetRoutes{BudgetMilliseconds: 1}
	ops = append(ops, store.Gateways.Put(g), store.EnvoyFleets.Put(fleet))
	for range 3 {
		op, _, _ := c.route()
		ops = append(ops, op)
	}
	return ops
}

func fleetRef(name string) *gatewayv1.GatewayInfrastructure {
	return &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: v1alpha1.Group, Kind: "EnvoyFleet", Name: name},
	}
}

func (c *chaos) gatewayTLS() *gatewayv1.GatewayTLSConfig {
	validation := func() gatewayv1.TLSConfig {
		if c.some(3) {
			return gatewayv1.TLSConfig{}
		}
		ref := gatewayv1.ObjectReference{Kind: "ConfigMap", Name: gatewayv1.ObjectName(fmt.Sprint("ca", c.IntN(2)))}
		if c.some(3) {
			ref.Namespace = ptr[gatewayv1.Namespace]("other")
		}
		return gatewayv1.TLSConfig{Validation: &gatewayv1.FrontendTLSValidation{
			CACertificateRefs: []gatewayv1.ObjectReference{ref},
			Mode:              pick(c, gatewayv1.AllowValidOnly, gatewayv1.AllowInsecureFallback),
		}}
	}
	out := &gatewayv1.GatewayTLSConfig{Frontend: &gatewayv1.FrontendTLSConfig{Default: validation()}}
	if c.some(2) {
		out.Frontend.PerPort = []gatewayv1.TLSPortConfig{{Port: 443, TLS: validation()}}
	}
	if c.some(2) {
		out.Backend = &gatewayv1.GatewayBackendTLS{
			ClientCertificateRef: &gatewayv1.SecretObjectReference{
				Name: gatewayv1.ObjectName(fmt.Sprint("cert", c.IntN(2))),
			},
		}
	}
	return out
}

func (c *chaos) hostname() gatewayv1.Hostname {
	return pick[gatewayv1.Hostname](c, "", "a.com", "*.a.com", "x.a.com", "*.x.a.com", "b.org")
}

func (c *chaos) route() (store.Op, func(string) store.Op, string) {
	r := &gatewayv1.HTTPRoute{ObjectMeta: c.numbered("route", 4)}
	c.age(&r.ObjectMeta)
	r.Spec.CommonRouteSpec = c.parents()
	r.Spec.Hostnames = c.hostnames()
	for range 1 + c.IntN(3) {
		r.Spec.Rules = append(r.Spec.Rules, c.rule())
	}
	return made(store.HTTPRoutes, r)
}

func (c *chaos) rule() gatewayv1.HTTPRouteRule {
	var rule gatewayv1.HTTPRouteRule
	for range 1 + c.IntN(2) {
		kind := pick(c, gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix, gatewayv1.PathMatchPathPrefix,
			gatewayv1.PathMatchRegularExpression)
		m := gatewayv1.HTTPRouteMatch{
			Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: ptr(pick(c, "/", "/v1", "/v1/chat", "/a"))},
		}
		if c.some(3) {
			m.Method = ptr(gatewayv1.HTTPMethodPost)
		}
		if c.some(3) {
			m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{
				Name: pick[gatewayv1.HTTPHeaderName](c, "X-Team", "X-Gateway-Model-Name"), Value: "a",
			})
		}
		if c.words.IntN(4) == 0 { // several matches with the larger expression exceed a budget
			m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{
				Name: "X-Word", Type: ptr(gatewayv1.HeaderMatchRegularExpression),
				Value: []string{"a+", "(a[b-z]{900}){3}"}[c.words.IntN(2)],
			})
		}
		// A few matches with so many headers exceed a budget of Envoy's time.
		for i := range 200 * max(0, c.words.IntN(4)-2) {
			m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{
				Name: gatewayv1.HTTPHeaderName(fmt.Sprint("X-", i)), Value: "a",
			})
		}
		rule.Matches = append(rule.Matches, m)
	}
	if c.some(5) {
		rule.Filters = append(rule.Filters, c.filter())
		if rule.Filters[0].RequestRedirect != nil {
			return rule
		}
	}
	for range c.IntN(4) {
		b := c.backend()
		if c.some(6) {
			b.Filters = append(b.Filters, c.filter())
		}
		rule.BackendRefs = append(rule.BackendRefs, b)
	}
	if c.some(6) {
		rule.SessionPersistence = &gatewayv1.SessionPersistence{
			Type: ptr(pick(c, gatewayv1.CookieBasedSessionPersistence, gatewayv1.HeaderBasedSessionPersistence)),
		}
	}
	return rule
}

func (c *chaos) filter() gatewayv1.HTTPRouteFilter {
	return pick(c,
		gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier,
			RequestHeaderModifier: &gatewayv1.HTTPHeaderFilter{Set: []gatewayv1.HTTPHeader{{Name: "x-a", Value: "1"}}}},
		gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestRedirect,
			RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: ptr[gatewayv1.PreciseHostname]("c.com")}},
		gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterURLRewrite,
			URLRewrite: &gatewayv1.HTTPURLRewriteFilter{Hostname: ptr[gatewayv1.PreciseHostname]("d.com")}},
		gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestMirror,
			RequestMirror: &gatewayv1.HTTPRequestMirrorFilter{
				BackendRef: c.serviceRef(), Percent: ptr(pick[int32](c, 0, 30, 100)),
			}},
		gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterCORS,
			CORS: &gatewayv1.HTTPCORSFilter{AllowOrigins: []gatewayv1.CORSOrigin{"https://*.a.com"}}},
		gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterExternalAuth,
			ExternalAuth: &gatewayv1.HTTPExternalAuthFilter{
				ExternalAuthProtocol: pick(c, gatewayv1.HTTPRouteExternalAuthHTTPProtocol,
					gatewayv1.HTTPRouteExternalAuthGRPCProtocol), BackendRef: c.serviceRef()}},
	)
}

func (c *chaos) serviceRef() gatewayv1.BackendObjectReference {
	return gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(fmt.Sprint("svc", c.IntN(3))),
		Port: ptr[gatewayv1.PortNumber](80)}
}

func (c *chaos) backend() gatewayv1.HTTPBackendRef {
	var b gatewayv1.HTTPBackendRef
	switch c.IntN(3) {
	case 0:
		b.Name, b.Port = gatewayv1.ObjectName(fmt.Sprint("svc", c.IntN(3))), ptr(pick[gatewayv1.PortNumber](c, 80, 81))
	case 1:
		b.Group, b.Kind = ptr(pick[gatewayv1.Group](c, "inference.networking.k8s.io", "inference.networking.x-k8s.io")),
			ptr[gatewayv1.Kind]("InferencePool")
		b.Name = gatewayv1.ObjectName(fmt.Sprint("pool", c.IntN(3)))
	case 2:
		b.Group, b.Kind = ptr[gatewayv1.Group]("inference.networking.x-k8s.io"),
			ptr[gatewayv1.Kind]("InferencePoolImport")
		b.Name = gatewayv1.ObjectName(fmt.Sprint("imp", c.IntN(2), pick(c, "", "", "-c-0", "-c-1")))
	}
	if c.some(2) {
		b.Weight = ptr(pick[int32](c, 0, 1, 50, 999))
	}
	if c.some(5) {
		b.Namespace = ptr[gatewayv1.Namespace]("other")
	}
	if c.some(4) {
		b.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterExtensionRef,
			ExtensionRef: &gatewayv1.LocalObjectReference{
				Group: v1alpha1.Group, Kind: "PoolPolicy",
				Name: gatewayv1.ObjectName(fmt.Sprint("policy", c.IntN(3)))}}}
	}
	return b
}

func (c *chaos) service() (store.Op, func(string) store.Op, string) {
	s := &corev1.Service{ObjectMeta: c.numbered("svc", 3)}
	s.Spec.Ports = []corev1.ServicePort{
		{Name: "http", Port: pick[int32](c, 80, 81, 9002), TargetPort: intstr.FromInt32(8080)},
	}
	if c.some(2) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP})
	}
	switch c.IntN(5) {
	case 0:
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "gpu.example"
	case 1:
		s.Spec.Selector = map[string]string{"app": "a"}
	case 2:
		s.Spec.Ports[0].AppProtocol = ptr("kubernetes.io/h2c")
	}
	return made(store.Services, s)
}

func (c *chaos) slice() (store.Op, func(string) store.Op, string) {
	s := &discoveryv1.EndpointSlice{ObjectMeta: c.numbered("slice", 3), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("svc", c.IntN(3))}
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr[int32](8080)},
		{Name: ptr("udp"), Port: ptr[int32](5353), Protocol: ptr(corev1.ProtocolUDP)}}
	for range c.IntN(3) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprint("10.1.0.", c.IntN(5))},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr(c.some(2)), Serving: ptr(c.some(2))},
		})
	}
	return made(store.EndpointSlices, s)
}

func (c *chaos) pod() (store.Op, func(string) store.Op, string) {
	p := &corev1.Pod{ObjectMeta: c.numbered("pod", 4)}
	p.Labels = map[string]string{"app": pick(c, "a", "b")}
	p.Status.PodIP = fmt.Sprint("10.3.0.", c.IntN(5))
	if c.some(3) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: pick(c, corev1.ConditionTrue, corev1.ConditionFalse)},
		}
	}
	if c.some(5) {
		p.DeletionTimestamp = &metav1.Time{}
	}
	return made(store.Pods, p)
}

func (c *chaos) subset() *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: pick(c, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, "odd"),
				Values: []string{pick(c, "a", "b")}},
		},
	}
}

func (c *chaos) configMap() (store.Op, func(string) store.Op, string) {
	m := &corev1.ConfigMap{ObjectMeta: c.numbered("ca", 2)}
	m.Data = map[string]string{"ca.crt": pick(c, string(c.certs[0][0]), string(c.certs[1][0]), "none")}
	return made(store.ConfigMaps, m)
}

func (c *chaos) tlsPolicy() (store.Op, func(string) store.Op, string) {
	p := &gatewayv1.BackendTLSPolicy{ObjectMeta: c.numbered("tls", 3)}
	p.CreationTimestamp = metav1.Unix(int64(c.IntN(2)), 0)
	for range 1 + c.IntN(2) {
		t := gatewayv1.LocalPolicyTargetReferenceWithSectionName{}
		switch c.IntN(4) {
		case 0:
			t.Group, t.Kind, t.Name = "inference.networking.k8s.io", "InferencePool",
				gatewayv1.ObjectName(fmt.Sprint("pool", c.IntN(3)))
		case 1:
			t.Group, t.Kind, t.Name = "inference.networking.x-k8s.io", "InferencePoolImport",
				gatewayv1.ObjectName(c.importName())
		default:
			t.Kind, t.Name = "Service", gatewayv1.ObjectName(fmt.Sprint("svc", c.IntN(3)))
		}
		if c.some(3) {
			t.SectionName = ptr(pick[gatewayv1.SectionName](c, "http", "c-0", "none"))
		}
		p.Spec.TargetRefs = append(p.Spec.TargetRefs, t)
	}
	v := &p.Spec.Validation
	v.Hostname = "pods.example"
	v.CACertificateRefs = []gatewayv1.LocalObjectReference{
		{Kind: "ConfigMap", Name: gatewayv1.ObjectName(fmt.Sprint("ca", c.IntN(2)))},
	}
	if c.some(4) {
		v.CACertificateRefs, v.WellKnownCACertificates = nil, ptr(gatewayv1.WellKnownCACertificatesSystem)
	}
	return made(store.BackendTLSPolicies, p)
}

func (c *chaos) secret() (store.Op, func(string) store.Op, string) {
	s := &corev1.Secret{ObjectMeta: c.numbered("cert", 2), Type: corev1.SecretTypeTLS}
	pair := c.certs[c.IntN(2)]
	s.Data = map[string][]byte{"tls.crt": pair[0], "tls.key": pair[1]}
	if c.some(4) {
		s.Data["tls.key"] = []byte("not a key")
	}
	return made(store.Secrets, s)
}

func (c *chaos) grant() (store.Op, func(string) store.Op, string) {
	g := &gatewayv1beta1.ReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprint("grant", c.IntN(2))},
	}
	from := pick(c, [2]string{gatewayv1.GroupName, "HTTPRoute"}, [2]string{gatewayv1.GroupName, "Gateway"},
		[2]string{v1alpha1.Group, "PoolPolicy"})
	g.Spec.From = []gatewayv1beta1.ReferenceGrantFrom{
		{Group: gatewayv1.Group(from[0]), Kind: gatewayv1.Kind(from[1]), Namespace: "default"},
	}
	to := pick(c, [2]string{"", "Service"}, [2]string{"", "Secret"},
		[2]string{"inference.networking.k8s.io", "InferencePool"})
	g.Spec.To = []gatewayv1beta1.ReferenceGrantTo{{Group: gatewayv1.Group(to[0]), Kind: gatewayv1.Kind(to[1])}}
	return made(store.ReferenceGrants, g)
}

func (c *chaos) namespace() (store.Op, func(string) store.Op, string) {
	return made(store.Namespaces, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: pick(c, "default", "other"),
			Labels: map[string]string{"team": pick(c, "a", "b")}},
	})
}

func (c *chaos) host() (store.Op, func(string) store.Op, string) {
	return made(store.Hosts,
		&store.Host{ObjectMeta: metav1.ObjectMeta{Name: "gpu.example"},
			Addresses: []string{fmt.Sprint("10.7.0.", c.IntN(3))}})
}

func (c *chaos) addresses() (store.Op, func(string) store.Op, string) {
	p := addresses.Unrestricted()
	p.ExternalName = c.some(2)
	if c.some(2) {
		p.Denied = []string{fmt.Sprintf("10.%d.0.0/16", c.IntN(10))}
	}
	return made(store.AddressPolicies, p)
}

func (c *chaos) class() (store.Op, func(string) store.Op, string) {
	return made(store.GatewayClasses, &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: pick(c, "penstock", "other")},
		Spec: gatewayv1.GatewayClassSpec{
			ControllerName: pick[gatewayv1.GatewayController](c, "penstock.dev/gateway-controller",
				"example.com/other"),
		},
	})
}
