package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// One bad expression makes Envoy reject a whole route configuration: what it rejects must be reported here.
func TestRegex_ExpressionsThatEnvoyRejectsAreReported(t *testing.T) {
	rejected := []string{"", "a(b", "a**", "(?=a)", `\x{100}`, `\x{10FFFF}`, `\x{D800}`, `[\x{100}-\x{200}]`, `\\\x{100}`}
	taken := []string{
		`\pL+`, `\p{Greek}`, "(?i)abc", "(?P<n>a)", "(?<n>a)", `\Qa.b\E`, `a\z`, `\Aa`, "[[:alpha:]]+", "a{1,1000}", "a{0}", "(a|b)*?c",
		`\d+\s\w`, `[^\x00-\x7F]`, "é+", "(?s).*", "(?U)a+", `\bfoo\b`, `[\d\-]`, "x*", "()", "(?m)^a$", `\x{ff}`, `\x{0ff}`, `\xff`, `\\x{100}`,
		"[a-z]{1,1000}[a-z]{1,1000}[a-z]{1,1000}", strings.Repeat(`.{1000}`, 4),
	}
	for _, pattern := range rejected {
		if wrong := regexProblem(t, pattern); wrong == "" {
			t.Errorf("%q is accepted", pattern)
		}
		if envoytest.Validate(t, []byte(bootstrap("", regexRoutes(pattern)))) == "" {
			t.Errorf("Envoy takes %q", pattern)
		}
	}
	for _, pattern := range taken {
		if wrong := regexProblem(t, pattern); wrong != "" {
			t.Errorf("%q is reported: %s", pattern, wrong)
		}
	}
	if problem := envoytest.Validate(t, []byte(bootstrap("", regexRoutes(taken...)))); problem != "" {
		t.Errorf("Envoy rejects one of them: %s", problem)
	}
	// Envoy takes these; we do not, to stay on the safe side of its limit, and because Go cannot read it.
	for _, pattern := range []string{strings.Repeat(`\pL{1000}`, 10), `\C`} {
		if regexProblem(t, pattern) == "" {
			t.Errorf("%.20q is accepted", pattern)
		}
	}
}

func regexRoutes(patterns ...string) string {
	var routes []string
	for _, p := range patterns {
		quoted, _ := json.Marshal(p) // a string always has a form in JSON
		routes = append(routes, fmt.Sprintf(`{"match": {"safe_regex": {"regex": %s}}, "direct_response": {"status": 200}}`, quoted))
	}
	return `{"virtual_hosts": [{"name": "a", "domains": ["*"], "routes": [` + strings.Join(routes, ",") + `]}]}`
}

// regexProblem is the report on a route with a pattern for its path.
func regexProblem(t *testing.T, pattern string) string {
	t.Helper()
	kind := gatewayv1.PathMatchRegularExpression
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: &pattern}}}}}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	gw.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	w := decide(view(t, []store.Op{store.Gateways.Put(gw), store.HTTPRoutes.Put(route)}), gatewayapi.Config{AnyClass: true})
	for _, f := range w.attached[0].Findings {
		return f.Problem
	}
	return ""
}
