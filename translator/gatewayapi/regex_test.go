package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// Envoy rejects a whole route configuration for one invalid expression.
func TestRegex_ExpressionsThatEnvoyRejectsAreReported(t *testing.T) {
	rejected := []string{"", "a(b", "a**", "(?=a)", `\x{100}`, `\x{10FFFF}`, `\x{D800}`, `[\x{100}-\x{200}]`,
		`\\\x{100}`, strings.Repeat(`\pL{1000}`, 20)}
	taken := []string{
		`\pL+`, `\p{Greek}`, "(?i)abc", "(?P<n>a)", "(?<n>a)", `\Qa.b\E`, `a\z`, `\Aa`, "[[:alpha:]]+", "a{1,1000}",
		"a{0}", "(a|b)*?c",
		`\d+\s\w`, `[^\x00-\x7F]`, "é+", "(?s).*", "(?U)a+", `\bfoo\b`, `[\d\-]`, "x*", "()", "(?m)^a$", `\x{ff}`,
		`\x{0ff}`, `\xff`, `\\x{100}`,
		"[a-z]{1,1000}[a-z]{1,1000}[a-z]{1,1000}", strings.Repeat(`.{1000}`, 4),
	}
	for _, pattern := range rejected {
		if wrong := regexProblem(t, pattern); wrong == "" {
			t.Errorf("%q is accepted, want a problem", pattern)
		}
		if envoytest.Validate(t, []byte(bootstrap("", regexRoutes(pattern)))) == "" {
			t.Errorf("Envoy takes %q, want it rejected", pattern)
		}
	}
	for _, pattern := range taken {
		if wrong := regexProblem(t, pattern); wrong != "" {
			t.Errorf("%q is reported, want it accepted: %s", pattern, wrong)
		}
	}
	if problem := envoytest.Validate(t, []byte(bootstrap("", regexRoutes(taken...)))); problem != "" {
		t.Errorf("Envoy rejects one of them, want all accepted: %s", problem)
	}
	if regexProblem(t, `\C`) == "" {
		t.Error(`\C is accepted: Envoy takes it, and Go cannot read it`)
	}
}

// The budget requires an estimate close to Envoy's program size: at most a fifth too low, and at
// most twice too high.
func TestRegex_ProgramSizeIsEnvoys(t *testing.T) {
	found := regexp.MustCompile(`program size of (\d+)`)
	for _, pattern := range []string{
		"x", "/v1/[a-z]+/x", "/users/[0-9]+/items/[^/]+", ".*foo.*bar.*", "(?i)application/grpc.*",
		"(foo|bar|baz|qux)[a-z0-9]{8}", "(a|ab|abc|abcd)*x",
		`(?:.*/)?(?:[a-z]+\.)*[a-z]+`, `\b\w+\b`, "a{1,1000}", "[^/]+(/[^/]+){50}", ".{1,100}", "(?s).{1,100}",
		`(\pL{100}){5}`, `\PL{50}`, "[日本]{30}", "日本{30}",
		"((a{1,10}){10}){10}", "(?i)[k]{50}", "(ab*){100}", "([a-z]{3,}){200}", "(a?){500}", "(a*){500}",
		"(a|bc|def){300}", "^/a/(b|c)$",
	} {
		level := strings.Replace(bootstrap("", regexRoutes(pattern)), `"re2.max_program_size.error_level": 100000`,
			`"re2.max_program_size.error_level": 1`, 1)
		text := found.FindStringSubmatch(envoytest.Validate(t, []byte(level)))
		if text == nil {
			t.Fatalf("%q: Envoy reports no size", pattern)
		}
		theirs, _ := strconv.Atoi(text[1])
		ours, err := envoy.ProgramSize(pattern)
		if err != nil || float64(ours) < 0.8*float64(theirs) || float64(ours) > 2*float64(theirs) {
			t.Errorf("%q: Envoy's program has %d instructions, ours %d (%v), want 0.8 to 2 times as many",
				pattern, theirs, ours, err)
		}
	}
}

func regexRoutes(patterns ...string) string {
	var routes []string
	for _, p := range patterns {
		quoted, _ := json.Marshal(p) // a string can always be encoded
		routes = append(routes,
			fmt.Sprintf(`{"match": {"safe_regex": {"regex": %s}}, "direct_response": {"status": 200}}`, quoted))
	}
	return `{"virtual_hosts": [{"name": "a", "domains": ["*"], "routes": [` + strings.Join(routes, ",") + `]}]}`
}

func regexProblem(t *testing.T, pattern string) string {
	t.Helper()
	kind := gatewayv1.PathMatchRegularExpression
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"}}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "web"}}
	route.Spec.Rules = []gatewayv1.HTTPRouteRule{
		{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &kind, Value: &pattern}}}},
	}
	gw := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	gw.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	w := decide(view(t, []store.Op{store.Gateways.Put(gw), store.HTTPRoutes.Put(route)}),
		gatewayapi.Config{AnyClass: true})
	for _, f := range w.attached[0].Findings {
		if f.Severity == report.Error { // a Warning is about requests, not about what Envoy accepts
			return f.Problem
		}
	}
	return ""
}
