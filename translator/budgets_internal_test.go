package translator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
)

type largest struct {
	matches, headers, params, hosts, length int
	action                                  string
}

func (l largest) route() *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "large"}}
	namespace := gatewayv1.Namespace("default")
	r.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw", Namespace: &namespace}}
	for i := range max(1, l.hosts) {
		r.Spec.Hostnames = append(r.Spec.Hostnames, gatewayv1.Hostname(fmt.Sprintf("h%d.tenant.example", i)))
	}
	for i := range l.matches {
		if i%8 == 0 {
			r.Spec.Rules = append(r.Spec.Rules, l.rule())
		}
		rule, path := &r.Spec.Rules[i/8], fmt.Sprintf("/%d/%d", i/8, i%8)
		m := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: &path}}
		value := strings.Repeat("a", l.length) + fmt.Sprint(40+i%8)
		for n := range l.headers {
			m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{Name: numbered("x-", n), Value: value})
		}
		for n := range l.params {
			m.QueryParams = append(m.QueryParams, gatewayv1.HTTPQueryParamMatch{Name: numbered("x-", n), Value: value})
		}
		rule.Matches = append(rule.Matches, m)
	}
	return r
}

func numbered(name string, n int) gatewayv1.HTTPHeaderName {
	return gatewayv1.HTTPHeaderName(fmt.Sprint(name, n))
}

func (l largest) rule() (rule gatewayv1.HTTPRouteRule) {
	port, host, status := gatewayv1.PortNumber(80), gatewayv1.PreciseHostname("attacker.example"), 302
	service := func(name string, weight int32) {
		b := gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{Weight: &weight}}
		b.Name, b.Port = gatewayv1.ObjectName(name), &port
		rule.BackendRefs = append(rule.BackendRefs, b)
	}
	switch l.action {
	case "service":
		service("svc0", 1)
	case "services":
		for n := range 16 {
			service(fmt.Sprint("svc", n), int32(n+1))
		}
	case "mirrors", "session", "auth", "http auth", "path":
		service("svc0", 1)
	case "missing":
		service("nowhere", 1)
	case "pool":
		group, kind := gatewayv1.Group("inference.networking.k8s.io"), gatewayv1.Kind("InferencePool")
		b := gatewayv1.HTTPBackendRef{}
		b.Group, b.Kind, b.Name = &group, &kind, "pool"
		rule.BackendRefs = append(rule.BackendRefs, b)
	default:
		rule.Filters = append(rule.Filters, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterRequestRedirect,
			RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: &host, StatusCode: &status}})
	}
	l.filters(&rule)
	return rule
}

func (l largest) filters(rule *gatewayv1.HTTPRouteRule) {
	switch f := (gatewayv1.HTTPRouteFilter{}); l.action {
	case "headers":
		f.Type, f.ResponseHeaderModifier = gatewayv1.HTTPRouteFilterResponseHeaderModifier,
			&gatewayv1.HTTPHeaderFilter{}
		for n := range 16 {
			header := gatewayv1.HTTPHeader{Name: numbered("x-", n), Value: fmt.Sprint("v", n)}
			f.ResponseHeaderModifier.Set = append(f.ResponseHeaderModifier.Set, header)
		}
		rule.Filters = append(rule.Filters, f)
	case "mirrors":
		f.Type = gatewayv1.HTTPRouteFilterRequestMirror
		f.RequestMirror = &gatewayv1.HTTPRequestMirrorFilter{BackendRef: rule.BackendRefs[0].BackendObjectReference}
		rule.Filters = slices.Repeat([]gatewayv1.HTTPRouteFilter{f}, 8)
	case "session":
		header := gatewayv1.HeaderBasedSessionPersistence
		rule.SessionPersistence = &gatewayv1.SessionPersistence{Type: &header}
	case "origins", "64 origins":
		f.Type, f.CORS = gatewayv1.HTTPRouteFilterCORS, &gatewayv1.HTTPCORSFilter{}
		f.CORS.AllowOrigins = []gatewayv1.CORSOrigin{"https://b.com", "https://*.a.com"}
		for i := range 62 {
			if l.action == "64 origins" {
				f.CORS.AllowOrigins = append(f.CORS.AllowOrigins,
					gatewayv1.CORSOrigin(fmt.Sprintf("https://*.a%d.com", i)))
			}
		}
		rule.Filters = append(rule.Filters, f)
	case "auth", "http auth":
		f.Type, f.ExternalAuth = gatewayv1.HTTPRouteFilterExternalAuth, &gatewayv1.HTTPExternalAuthFilter{
			ExternalAuthProtocol: gatewayv1.HTTPRouteExternalAuthGRPCProtocol,
			BackendRef:           rule.BackendRefs[0].BackendObjectReference,
		}
		if l.action == "http auth" {
			f.ExternalAuth.ExternalAuthProtocol = gatewayv1.HTTPRouteExternalAuthHTTPProtocol
		}
		rule.Filters = append(rule.Filters, f)
	case "path":
		full := "/x"
		f.Type, f.URLRewrite = gatewayv1.HTTPRouteFilterURLRewrite, &gatewayv1.HTTPURLRewriteFilter{}
		f.URLRewrite.Path = &gatewayv1.HTTPPathModifier{
			Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: &full,
		}
		rule.Filters = append(rule.Filters, f)
	}
}

// The test compares estimates with measurements of Envoy 1.40: the time from a change of a small
// route until Envoy serves it. The time of the change alone, 9 ms, is subtracted, and the rest is
// divided by the number of routes: 100 of these routes, or 5,000 with one match. Filters were
// measured with 10 and 20 routes on a busy machine, relative to a Service.
func TestRouteBudget_EstimatesWhatEnvoyTakes(t *testing.T) {
	for name, c := range map[string]struct {
		largest
		took time.Duration
	}{
		"redirects":                      {largest{matches: 128}, 620 * time.Microsecond},
		"headers":                        {largest{matches: 128, headers: 16}, 4260 * time.Microsecond},
		"query parameters":               {largest{matches: 128, params: 16}, 3240 * time.Microsecond},
		"both":                           {largest{matches: 128, headers: 16, params: 16}, 7540 * time.Microsecond},
		"a value of 4,000 bytes":         {largest{matches: 128, headers: 1, length: 3998}, 2620 * time.Microsecond},
		"16 hostnames":                   {largest{matches: 128, hosts: 16}, 10710 * time.Microsecond},
		"16 response headers":            {largest{matches: 128, action: "headers"}, 4180 * time.Microsecond},
		"a Service":                      {largest{matches: 128, action: "service"}, 2290 * time.Microsecond},
		"16 Services":                    {largest{matches: 128, action: "services"}, 6380 * time.Microsecond},
		"an InferencePool":               {largest{matches: 128, action: "pool"}, 6600 * time.Microsecond},
		"a missing backend":              {largest{matches: 128, action: "missing"}, 1090 * time.Microsecond},
		"8 mirrors":                      {largest{matches: 128, action: "mirrors"}, 19500 * time.Microsecond},
		"a session":                      {largest{matches: 128, action: "session"}, 3300 * time.Microsecond},
		"CORS":                           {largest{matches: 128, action: "origins"}, 2600 * time.Microsecond},
		"CORS of 64 origins":             {largest{matches: 16, action: "64 origins"}, 12300 * time.Microsecond},
		"authorization by gRPC":          {largest{matches: 128, action: "auth"}, 21200 * time.Microsecond},
		"authorization by HTTP":          {largest{matches: 128, action: "http auth"}, 20500 * time.Microsecond},
		"a rewritten path":               {largest{matches: 128, action: "path"}, 3450 * time.Microsecond},
		"a small route":                  {largest{matches: 1}, 16600 * time.Nanosecond},
		"a small route to a Service":     {largest{matches: 1, action: "service"}, 28800 * time.Nanosecond},
		"a small route to a pool of its": {largest{matches: 1, action: "pool"}, 78400 * time.Nanosecond},
	} {
		s := store.New()
		meta := func(namespace, name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: name}
		}
		from := gatewayv1.NamespacesFromAll
		gw := &gatewayv1.Gateway{ObjectMeta: meta("default", "gw")}
		gw.Spec.GatewayClassName = "penstock"
		gw.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
		gw.Spec.Listeners[0].AllowedRoutes = &gatewayv1.AllowedRoutes{
			Namespaces: &gatewayv1.RouteNamespaces{From: &from},
		}
		pool := &inferencev1.InferencePool{ObjectMeta: meta("tenant", "pool")}
		pool.Spec.TargetPorts = []inferencev1.Port{{Number: 8000}}
		pool.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{"app": "a"}
		ops := []store.Op{store.HTTPRoutes.Put(c.route()), store.Gateways.Put(gw), store.InferencePools.Put(pool)}
		for n := range 16 {
			svc := &corev1.Service{ObjectMeta: meta("tenant", fmt.Sprint("svc", n))}
			svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
			ops = append(ops, store.Services.Put(svc))
		}
		rev, err := s.Apply(ops...)
		if err != nil {
			t.Fatal(err)
		}
		tr := New(Config{Controller: "penstock.dev/gateway-controller", AnyClass: true})
		tr.Update(s.View(), rev.Changes)
		charge, ok := tr.tables.charges.Get(tr.engine.Reader(), "HTTPRoute tenant/large")
		if !ok || len(charge.Chains) != 1 {
			t.Fatalf("%s: the charge is %+v, want one chain", name, charge)
		}
		cost := charge.Chains[0].Cost
		ratio := float64(cost.Time()) / float64(c.took)
		if ratio < 1/1.5 || ratio > 1.5 {
			t.Errorf("%s: %v is estimated, Envoy took %v (%.2f): %v, want at least %.2f and at most 1.5",
				name, cost.Time(), c.took, ratio, cost, 1/1.5)
		}
	}
}
