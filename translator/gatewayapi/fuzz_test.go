package gatewayapi_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// Whatever a user writes into a route, the route is either not accepted, with a condition, or
// passes the checks of Envoy's configuration. Otherwise Envoy would not get a whole virtual host.
func FuzzRoute_TakesNoNeighbourDown(f *testing.F) {
	f.Add("/a", "X-A", "b", "q", "c", "d.example.com", "/e", "X-Remove", int32(1), int32(302), "GET", "10s")
	f.Add("", "", "", "", "", "", "", "", int32(0), int32(0), "", "")
	f.Add("/a\n", ":path", "a\r\nb", "\x00", "%", "a\nb", "\\1", ":authority", int32(-1), int32(700), "get", "99999h")
	f.Add("(", "host", "[", "*", "(?i)\\pL{900}", "*.a", "%DOWNSTREAM%", "Host", int32(1<<30), int32(303), "CONNECT",
		"0s")
	f.Fuzz(func(t *testing.T, path, name, value, query, queryValue, host, newPath, remove string, number, code int32,
		method, duration string) {
		for _, s := range []*string{&path, &name, &value, &query, &queryValue, &host, &newPath, &remove, &method,
			&duration} {
			*s = strings.ToValidUTF8(*s, "?") // JSON and YAML cannot hold invalid UTF-8
		}
		var rules []gatewayv1.HTTPRouteRule
		for _, kind := range []gatewayv1.PathMatchType{
			gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix, gatewayv1.PathMatchRegularExpression,
		} {
			match := fuzzedMatch(kind, path, name, value, query, queryValue, method)
			changes := &gatewayv1.HTTPHeaderFilter{
				Set:    []gatewayv1.HTTPHeader{{Name: gatewayv1.HTTPHeaderName(name), Value: value}},
				Add:    []gatewayv1.HTTPHeader{{Name: gatewayv1.HTTPHeaderName(query), Value: queryValue}},
				Remove: []string{remove},
			}
			modifiers := []gatewayv1.HTTPRouteFilter{
				{Type: gatewayv1.HTTPRouteFilterRequestHeaderModifier, RequestHeaderModifier: changes},
				{Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: changes},
			}
			precise, status, times, attempts := gatewayv1.PreciseHostname(host), int(code),
				gatewayv1.Duration(duration), int(number)
			for _, p := range []*gatewayv1.HTTPPathModifier{
				nil,
				{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: &newPath},
				{Type: gatewayv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: &newPath},
			} {
				rules = append(rules,
					gatewayv1.HTTPRouteRule{
						Matches: []gatewayv1.HTTPRouteMatch{match},
						Filters: append(modifiers[:2:2], gatewayv1.HTTPRouteFilter{
							Type: gatewayv1.HTTPRouteFilterRequestRedirect,
							RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{
								Hostname: &precise, Path: p, Port: &number, StatusCode: &status,
							},
						}),
					},
					gatewayv1.HTTPRouteRule{
						Matches: []gatewayv1.HTTPRouteMatch{{Path: match.Path}},
						Filters: append(modifiers[:1:1], gatewayv1.HTTPRouteFilter{
							Type:       gatewayv1.HTTPRouteFilterURLRewrite,
							URLRewrite: &gatewayv1.HTTPURLRewriteFilter{Hostname: &precise, Path: p},
						}),
						Timeouts: &gatewayv1.HTTPRouteTimeouts{Request: &times, BackendRequest: &times},
						Retry: &gatewayv1.HTTPRouteRetry{
							Codes:    []gatewayv1.HTTPRouteRetryStatusCode{gatewayv1.HTTPRouteRetryStatusCode(code)},
							Attempts: &attempts, Backoff: &times,
						},
						BackendRefs: []gatewayv1.HTTPBackendRef{{
							BackendRef: gatewayv1.BackendRef{
								BackendObjectReference: gatewayv1.BackendObjectReference{
									Name: "svc", Port: new(int32(80)),
								}, Weight: &number,
							},
							Filters: modifiers,
						}},
					})
			}
		}
		checkRules(t, append(rules, fuzzedFilters(path, name, value, host, newPath, duration, number)...))
		checkCalls(t, path, name, value, host)
	})
}

func fuzzedMatch(
	kind gatewayv1.PathMatchType, path, name, value, query, queryValue, method string,
) gatewayv1.HTTPRouteMatch {
	match := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: &path}}
	headers, queries := gatewayv1.HeaderMatchExact, gatewayv1.QueryParamMatchExact
	if kind == gatewayv1.PathMatchRegularExpression {
		headers, queries = gatewayv1.HeaderMatchRegularExpression, gatewayv1.QueryParamMatchRegularExpression
	}
	match.Headers = []gatewayv1.HTTPHeaderMatch{
		{Type: &headers, Name: gatewayv1.HTTPHeaderName(name), Value: value},
	}
	match.QueryParams = []gatewayv1.HTTPQueryParamMatch{
		{Type: &queries, Name: gatewayv1.HTTPHeaderName(query), Value: queryValue},
	}
	if method != "" {
		m := gatewayv1.HTTPMethod(method)
		match.Method = &m
	}
	return match
}

// fuzzedFilters returns rules with CORS, external authorization, mirrors and sessions.
func fuzzedFilters(path, name, value, host, newPath, duration string, number int32) []gatewayv1.HTTPRouteRule {
	svc := gatewayv1.BackendObjectReference{Name: "svc", Port: new(int32(80))}
	times, prefix := gatewayv1.Duration(duration), gatewayv1.PathMatchPathPrefix
	cors := &gatewayv1.HTTPCORSFilter{
		AllowOrigins:  []gatewayv1.CORSOrigin{gatewayv1.CORSOrigin(host), gatewayv1.CORSOrigin("https://" + host)},
		AllowMethods:  []gatewayv1.HTTPMethodWithWildcard{gatewayv1.HTTPMethodWithWildcard(value)},
		AllowHeaders:  []gatewayv1.HTTPHeaderName{gatewayv1.HTTPHeaderName(name)},
		ExposeHeaders: []gatewayv1.HTTPHeaderName{gatewayv1.HTTPHeaderName(value)}, MaxAge: number,
	}
	auth := &gatewayv1.HTTPExternalAuthFilter{
		ExternalAuthProtocol: gatewayv1.HTTPRouteExternalAuthHTTPProtocol, BackendRef: svc,
		HTTPAuthConfig: &gatewayv1.HTTPAuthConfig{
			Path: newPath, AllowedRequestHeaders: []string{name}, AllowedResponseHeaders: []string{value},
		},
		ForwardBody: &gatewayv1.ForwardBodyConfig{MaxSize: uint16(number)},
	}
	mirror := &gatewayv1.HTTPRequestMirrorFilter{BackendRef: svc,
		Fraction: &gatewayv1.Fraction{Numerator: number, Denominator: new(number / 2)}}
	filters := []gatewayv1.HTTPRouteFilter{
		{Type: gatewayv1.HTTPRouteFilterCORS, CORS: cors},
		{Type: gatewayv1.HTTPRouteFilterExternalAuth, ExternalAuth: auth},
		{Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: mirror},
	}
	backend := gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{BackendObjectReference: svc}}
	var rules []gatewayv1.HTTPRouteRule
	for i := range filters {
		own := backend
		own.Filters = filters[i : i+1]
		rules = append(rules, gatewayv1.HTTPRouteRule{
			Filters: filters[i : i+1], BackendRefs: []gatewayv1.HTTPBackendRef{backend},
		}, gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{own, backend}})
	}
	for _, typ := range []gatewayv1.SessionPersistenceType{
		gatewayv1.CookieBasedSessionPersistence, gatewayv1.HeaderBasedSessionPersistence,
	} {
		rules = append(rules, gatewayv1.HTTPRouteRule{
			SessionPersistence: &gatewayv1.SessionPersistence{SessionName: &name, Type: &typ, AbsoluteTimeout: &times},
			BackendRefs:        []gatewayv1.HTTPBackendRef{backend, backend},
		})
	}
	for i := range rules {
		rules[i].Matches = []gatewayv1.HTTPRouteMatch{{
			Path: &gatewayv1.HTTPPathMatch{Type: &prefix, Value: &path},
			// Without this header the first rule would take all requests.
			Headers: []gatewayv1.HTTPHeaderMatch{{Name: "x-rule", Value: fmt.Sprint(i)}},
		}}
	}
	return rules
}

func checkCalls(t *testing.T, service, method, value, header string) {
	t.Helper()
	ops := operations(t, `kind: Service
apiVersion: v1
metadata: {name: svc}
spec: {ports: [{port: 80}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}`)
	for _, kind := range []gatewayv1.GRPCMethodMatchType{
		gatewayv1.GRPCMethodMatchExact, gatewayv1.GRPCMethodMatchRegularExpression,
	} {
		headers := gatewayv1.GRPCHeaderMatchType(kind)
		route := &gatewayv1.GRPCRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fuzzed"}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
		route.Spec.Rules = []gatewayv1.GRPCRouteRule{{
			Matches: []gatewayv1.GRPCRouteMatch{{
				Method: &gatewayv1.GRPCMethodMatch{Type: &kind, Service: &service, Method: &method},
				Headers: []gatewayv1.GRPCHeaderMatch{
					{Type: &headers, Name: gatewayv1.GRPCHeaderName(header), Value: value},
				},
			}},
			BackendRefs: []gatewayv1.GRPCBackendRef{{BackendRef: gatewayv1.BackendRef{
				BackendObjectReference: gatewayv1.BackendObjectReference{Name: "svc", Port: new(int32(80))},
			}}},
		}}
		w := decide(view(t, append(ops, store.GRPCRoutes.Put(route))), gatewayapi.Config{AnyClass: true})
		for _, vh := range w.hosts(w.gateways["default/web"], "http/80") {
			if _, err := envoy.VirtualHost(vh); err != nil {
				t.Errorf("got %v, want a virtual host that Envoy accepts\n%s", err, w)
			}
		}
	}
}

func checkRules(t *testing.T, rules []gatewayv1.HTTPRouteRule) {
	t.Helper()
	ops := operations(t, `kind: Service
apiVersion: v1
metadata: {name: svc}
spec: {ports: [{port: 80}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: web}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}`)
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fuzzed"}}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
	for i, rule := range rules { // one route for each rule, so that no rule hides another
		route = route.DeepCopy()
		route.Spec.Rules = []gatewayv1.HTTPRouteRule{rule}
		w := decide(view(t, append(ops, store.HTTPRoutes.Put(route))), gatewayapi.Config{AnyClass: true})
		for _, vh := range w.hosts(w.gateways["default/web"], "http/80") {
			if _, err := envoy.VirtualHost(vh); err != nil {
				t.Errorf("rule %d: got %v, want a virtual host that Envoy accepts\n%s", i, err, w)
			}
		}
	}
}
