package gatewayapi_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// A match is converted to the form in which requests reach Envoy's routes. Otherwise a Warning
// states why no request meets it.
func TestUnreachable_MatchesAreNormalizedOrWarned(t *testing.T) {
	path := func(typ gatewayv1.PathMatchType, value string) gatewayv1.HTTPRouteMatch {
		return gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &typ, Value: &value}}
	}
	header := func(name, value string) gatewayv1.HTTPRouteMatch {
		return gatewayv1.HTTPRouteMatch{Headers: []gatewayv1.HTTPHeaderMatch{{Name: gatewayv1.HTTPHeaderName(name),
			Value: value}}}
	}
	query := func(typ gatewayv1.QueryParamMatchType, name, value string) gatewayv1.HTTPRouteMatch {
		return gatewayv1.HTTPRouteMatch{QueryParams: []gatewayv1.HTTPQueryParamMatch{{Type: &typ,
			Name: gatewayv1.HTTPHeaderName(name), Value: value}}}
	}
	connect := gatewayv1.HTTPMethodConnect
	const exact, prefix, regex = gatewayv1.PathMatchExact, gatewayv1.PathMatchPathPrefix,
		gatewayv1.PathMatchRegularExpression
	for _, c := range []struct {
		match   gatewayv1.HTTPRouteMatch
		want    string // converted path or query value
		warning string // part of the Warning; "" for none
	}{
		{path(prefix, "/%7Eteam"), "/~team", ""},
		{path(prefix, "/a/%2e%2e/b/"), "/b", ""},
		{path(exact, "/a/%2e/%41"), "/a/A", ""},
		{path(exact, "/caf%C3%A9%20x"), "/caf%C3%A9%20x", ""},
		{path(prefix, "/a%5Cb"), "/a%5Cb", "KeepUnchanged"},
		{path(exact, "/%00"), "/%00", "400"},
		{path(regex, "/r/%7E.*"), "/r/%7E.*", `demands "/r/%7E"`},
		{path(regex, "/r/(a b)+"), "/r/(a b)+", `demands "a b"`},
		{path(regex, "/a(//)?b|/c%20"), "/a(//)?b|/c%20", ""},
		{header("x-envoy-max-retries", "3"), "/", "removes the header"},
		{header("X-Penstock-Pool", "a"), "/", "removes the header"},
		{header("transfer-encoding", "chunked"), "/", "removes the header"},
		{header("x_team", "a"), "/", "headersWithUnderscores"},
		{header("x-team", "a "), "/", "begins or ends with a space"},
		{header("upgrade", "h2c"), "/", "upgrade"},
		{header("upgrade", "websocket"), "/", ""},
		{header("host", "a.test."), "/", "dot"},
		{header("x-gateway-model-name", "m"), "/", ""},
		{query(gatewayv1.QueryParamMatchExact, "team", "fox"), "fox", ""},
		{query(gatewayv1.QueryParamMatchExact, "team", "red fox"), `red(?:%(?i:20)|\+)fox`, ""},
		{query(gatewayv1.QueryParamMatchExact, "team", "red%20fox"), `red(?:%(?i:20)|\+)fox`, ""},
		{query(gatewayv1.QueryParamMatchExact, "team", "a&b#c"), `a%(?i:26)b%(?i:23)c`, ""},
		{query(gatewayv1.QueryParamMatchRegularExpression, "team", "red fox"), "red fox", "as clients send them"},
		{query(gatewayv1.QueryParamMatchExact, "a&b", "x"), "x", "no # or &"},
		{gatewayv1.HTTPRouteMatch{Method: &connect}, "/", "CONNECT"},
	} {
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
		route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
		route.Spec.Rules = []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{c.match}}}
		gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		gw.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
		a := decide(view(t, []store.Op{store.Gateways.Put(gw), store.HTTPRoutes.Put(route)}),
			gatewayapi.Config{AnyClass: true}).attached[0]
		m := a.Rules[0].Matches[0]
		got := m.Path
		if len(m.Query) > 0 {
			got = m.Query[0].Value
		}
		var warnings []string
		for _, f := range a.Findings {
			if f.Severity != report.Warning || !strings.HasPrefix(f.Field, "spec.rules[0].matches[0].") || f.Fix == "" {
				t.Errorf("got %+v, want a Warning with a fix, of spec.rules[0].matches[0]", f)
			}
			warnings = append(warnings, f.Problem)
		}
		text := fmt.Sprint(warnings)
		if got != c.want || (len(warnings) > 0) != (c.warning != "") || !strings.Contains(text, c.warning) {
			t.Errorf("%+v: matches %q, want %q; warnings %s, want %q", c.match, got, c.want, text, c.warning)
		}
	}
}
