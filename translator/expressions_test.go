package translator_test

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/xds/resource"
)

// tenants has a Gateway with a listener for the HTTPRoutes of all namespaces.
type tenants struct {
	t     *testing.T
	store *store.Store
	tr    *translator.Translator
	world *proxyWorld
}

func newTenants(t *testing.T) *tenants {
	r := &tenants{t: t, store: store.New(), tr: translator.New(config()), world: newProxyWorld()}
	r.apply(
		store.Gateways.Put(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw"},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "penstock",
				Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType,
					AllowedRoutes: &gatewayv1.AllowedRoutes{
						Namespaces: &gatewayv1.RouteNamespaces{From: ptr(gatewayv1.NamespacesFromAll)},
					}}},
			}}))
	return r
}

func (r *tenants) apply(ops ...store.Op) translator.Output {
	r.t.Helper()
	rev, err := r.store.Apply(ops...)
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.tr.Update(r.store.View(), rev.Changes)
	r.world.add(r.t, out)
	return out
}

// tenantRoute returns a route with a creation time in Unix seconds. It has one rule for each
// element of rules, with this number of regular expressions.
func tenantRoute(namespace, name string, created int64, hosts []gatewayv1.Hostname, rules ...int) *gatewayv1.HTTPRoute {
	o := &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.Unix(created, 0)},
	}
	o.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw", Namespace: ptr[gatewayv1.Namespace]("default")}}
	o.Spec.Hostnames = hosts
	for i, n := range rules {
		var rule gatewayv1.HTTPRouteRule
		for len(rule.Matches) == 0 || n > 0 {
			m := gatewayv1.HTTPRouteMatch{
				Path: &gatewayv1.HTTPPathMatch{Type: ptr(gatewayv1.PathMatchPathPrefix),
					Value: ptr(fmt.Sprintf("/%s/%d/%d", name, i, n))},
			}
			for h := 0; h < 16 && n > 0; h++ {
				n--
				m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{
					Name: gatewayv1.HTTPHeaderName(fmt.Sprint("x-", h)),
					Type: ptr(gatewayv1.HeaderMatchRegularExpression), Value: fmt.Sprintf("word%d[a-z]+", n),
				})
			}
			rule.Matches = append(rule.Matches, m)
		}
		o.Spec.Rules = append(o.Spec.Rules, rule)
	}
	return o
}

func (r *tenants) compiled() (n int) {
	for _, res := range r.tr.Resources("default/gw") {
		if res.Type == resource.RouteConfiguration {
			n += bytes.Count(res.Body(), []byte("[a-z]+"))
		}
	}
	return n
}

func (r *tenants) partiallyInvalid(namespace, name string) string {
	r.t.Helper()
	rep := r.world.Reports[report.Ref{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: namespace, Name: name}]
	if len(rep.Parents) != 1 {
		r.t.Fatalf("report on %s/%s: got %v, want one parent", namespace, name, rep)
	}
	for _, c := range rep.Parents[0].Conditions {
		if c.Reason == "TooManyRegularExpressions" {
			return string(c.Type) + " " + string(c.Status) + ": " + c.Message
		}
	}
	return ""
}

func TestRegularExpressions_LargestRouteKeepsTheRestOfItsRules(t *testing.T) {
	r := newTenants(t)
	host := []gatewayv1.Hostname{"a.example"}
	r.apply(store.HTTPRoutes.Put(tenantRoute("a", "large", 1, host, 0, 16, 2048)))
	if n := r.compiled(); n != 16 {
		t.Errorf("Envoy compiles %d expressions, want only the rule's that fits", n)
	}
	got := r.partiallyInvalid("a", "large")
	if !strings.HasPrefix(got, "PartiallyInvalid True: Dropped Rule 2 ") || !strings.Contains(got, "spec.rules[2]") ||
		!strings.Contains(got, "128") {
		t.Errorf("the condition is %q, want PartiallyInvalid, with spec.rules[2] dropped and the limit of 128", got)
	}
	explain := func(path, header string) string {
		u, _ := url.Parse("http://a.example" + path)
		e := r.tr.Explain(translator.Query{URL: u, Header: map[string][]string{"X-0": {header}, "X-15": {"x"}}})
		return fmt.Sprint(e.Rule, " ", e.Answer)
	}
	if got := explain("/large/0/0", ""); !strings.HasPrefix(got, "0 ") {
		t.Errorf("the rule without expressions: got %s, want rule 0", got)
	}
	// The request might match this rule, so no other rule may take it.
	headers := http16("x")
	u, _ := url.Parse("http://a.example/large/2/2048")
	if e := r.tr.Explain(translator.Query{URL: u, Header: headers}); e.Rule != 2 ||
		!strings.HasPrefix(e.Answer, "500: The regular expressions") {
		t.Errorf("a request of a rule above the budget: got rule %d, %s; want rule 2 and 500", e.Rule, e.Answer)
	}
	r.apply(store.HTTPRoutes.Put(tenantRoute("a", "large", 1, host, 0, 16, 100)))
	if got := r.partiallyInvalid("a", "large"); got != "" || r.compiled() != 116 {
		t.Errorf("within the budget: got %q, %d expressions; want no condition, and 116", got, r.compiled())
	}
}

func http16(value string) map[string][]string {
	h := map[string][]string{}
	for i := range 16 {
		h[fmt.Sprint("X-", i)] = []string{value}
	}
	return h
}

func TestRegularExpressions_MatchesThatDifferInThemAloneBecomeOne(t *testing.T) {
	r := newTenants(t)
	o := tenantRoute("a", "large", 1, []gatewayv1.Hostname{"a.example"}, 2048)
	for i := range o.Spec.Rules[0].Matches {
		o.Spec.Rules[0].Matches[i].Path.Value = ptr("/same")
	}
	r.apply(store.HTTPRoutes.Put(o))
	var host routev3.VirtualHost
	if err := proto.Unmarshal([]byte(r.hosts()["a.example"]), &host); err != nil {
		t.Fatal(err)
	}
	if n := len(host.Routes); n != 1 || len(host.Routes[0].Match.Headers) != 16 ||
		host.Routes[0].GetDirectResponse().GetStatus() != 500 {
		t.Errorf("128 matches above the budget became %d of Envoy's routes, want one with 16 headers and 500, the "+
			"first is %v", n, host.Routes[0])
	}
}

func TestRegularExpressions_NewestRulesOfANamespaceAboveItsShareAnswer500(t *testing.T) {
	r := newTenants(t)
	four := []gatewayv1.Hostname{"a.example", "b.example", "c.example", "d.example"}
	r.apply(store.HTTPRoutes.Put(tenantRoute("a", "z-oldest", 1, four, 30)),
		store.HTTPRoutes.Put(tenantRoute("a", "m-middle", 2, four, 30)),
		store.HTTPRoutes.Put(tenantRoute("a", "a-newest", 3, four, 10, 10, 0)),
		store.HTTPRoutes.Put(tenantRoute("b", "other", 9, []gatewayv1.Hostname{"e.example"}, 30)))
	if got := r.partiallyInvalid("a", "a-newest"); !strings.HasPrefix(got,
		"PartiallyInvalid True: Dropped Rule 0, 1 ") {
		t.Errorf(`the newest route's condition is %q, want the beginning "PartiallyInvalid True: Dropped Rule 0, 1 "`,
			got)
	}
	for _, name := range []string{"z-oldest", "m-middle"} {
		if got := r.partiallyInvalid("a", name); got != "" {
			t.Errorf("%s: got %s, want no condition", name, got)
		}
	}
	// The third namespace reduces the share of each namespace to 170.
	r.apply(store.HTTPRoutes.Put(tenantRoute("c", "plain", 9, []gatewayv1.Hostname{"f.example"}, 0)))
	if got := r.partiallyInvalid("a", "m-middle"); !strings.HasPrefix(got, "Accepted False: ") ||
		!strings.Contains(got, "3 namespaces") {
		t.Errorf("the middle route's condition is %q, want not accepted, for 3 namespaces", got)
	}
	if got := r.partiallyInvalid("a", "z-oldest") + r.partiallyInvalid("b", "other"); got != "" {
		t.Errorf("routes within their shares: got %q, want no condition", got)
	}
	// A change by another tenant recomputes no row of this tenant.
	out := r.apply(store.HTTPRoutes.Put(tenantRoute("b", "other", 9, []gatewayv1.Hostname{"e.example"}, 31)))
	if !strings.Contains(out.Work, "overruns=0/1") {
		t.Errorf(`one tenant's change computed %s, want a text with "overruns=0/1"`, out.Work)
	}
	out = r.apply(store.HTTPRoutes.Put(tenantRoute("c", "plain", 9, []gatewayv1.Hostname{"g.example"}, 0)))
	if strings.Contains(out.Work, "overruns") {
		t.Errorf("a change without expressions computed %s, want no overruns", out.Work)
	}
}

func TestRegularExpressions_WiderHostnamesAreBoundedInEachHost(t *testing.T) {
	r := newTenants(t)
	r.budget(60_000)
	r.apply(store.HTTPRoutes.Put(tenantRoute("a", "wide", 1, []gatewayv1.Hostname{"*.example"}, 50, 50)))
	if n := r.compiled(); n != 100 {
		t.Fatalf("%d expressions, want 100", n)
	}
	var ops []store.Op
	for i := range 50 {
		var hosts []gatewayv1.Hostname
		for j := range 16 {
			hosts = append(hosts, gatewayv1.Hostname(fmt.Sprintf("h%d-%d.example", i, j)))
		}
		ops = append(ops, store.HTTPRoutes.Put(tenantRoute("b", fmt.Sprint("narrow", i), 1, hosts, 0)))
	}
	r.apply(ops...)
	if n := r.compiled(); n != 100 {
		t.Errorf("%d expressions: 800 hosts under the wildcard have each their copy, want 100", n)
	}
	r.apply(store.HTTPRoutes.Put(tenantRoute("c", "narrow", 1, []gatewayv1.Hostname{"one.example"}, 0)))
	if n := r.compiled(); n != 200 {
		t.Errorf("%d expressions, want the copy of a namespace that has one host", n)
	}
	if got := r.partiallyInvalid("a", "wide"); got != "" {
		t.Errorf("another namespace's hosts count against the wildcard's, want no condition: %s", got)
	}
}
