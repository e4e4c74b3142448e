package translator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// largeRoute returns a route with redirects. It has this number of matches, with 16 headers each.
func largeRoute(namespace, name string, created int64, matches int) *gatewayv1.HTTPRoute {
	o := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	o.CreationTimestamp = metav1.Unix(created, 0)
	o.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "gw", Namespace: ptr[gatewayv1.Namespace]("default")}}
	o.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(name + "." + namespace + ".example")}
	for i := range matches {
		if i%8 == 0 {
			o.Spec.Rules = append(o.Spec.Rules, gatewayv1.HTTPRouteRule{Filters: []gatewayv1.HTTPRouteFilter{{
				Type:            gatewayv1.HTTPRouteFilterRequestRedirect,
				RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{StatusCode: ptr(301)},
			}}})
		}
		m := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: ptr(fmt.Sprint("/", i))}}
		for h := range 16 {
			name := gatewayv1.HTTPHeaderName(fmt.Sprint("x-", h))
			m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{Name: name, Value: "a"})
		}
		rule := &o.Spec.Rules[len(o.Spec.Rules)-1]
		rule.Matches = append(rule.Matches, m)
	}
	return o
}

func (r *tenants) put(routes ...*gatewayv1.HTTPRoute) translator.Output {
	r.t.Helper()
	var ops []store.Op
	for _, route := range routes {
		ops = append(ops, store.HTTPRoutes.Put(route))
	}
	return r.apply(ops...)
}

func (r *tenants) accepted(namespace, name string) report.Condition {
	r.t.Helper()
	rep := r.world.Reports[report.Ref{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: namespace, Name: name}]
	if len(rep.Parents) != 1 {
		r.t.Fatalf("report on %s/%s: got %v, want one parent", namespace, name, rep)
	}
	c := *report.Find(rep.Parents[0].Conditions, string(gatewayv1.RouteConditionAccepted))
	findings := slices.ContainsFunc(rep.Findings, func(f report.Finding) bool {
		return f.Severity == report.Error && f.Fix != ""
	})
	if c.Reason == "RouteBudgetExceeded" != findings {
		r.t.Errorf("%s/%s is %s, its findings are %v; want an error with a fix if and only if its budget is exceeded",
			namespace, name, c.Reason, rep.Findings)
	}
	return c
}

func (r *tenants) hosts() map[string]string {
	out := map[string]string{}
	for _, res := range r.tr.Resources("default/gw") {
		var rc routev3.RouteConfiguration
		if res.Type != resource.RouteConfiguration || res.Name != model.RoutesName("http/80") {
			continue
		}
		if err := proto.Unmarshal(res.Body(), &rc); err != nil {
			r.t.Fatal(err)
		}
		for _, h := range rc.VirtualHosts {
			body, err := resource.Marshal(h)
			if err != nil {
				r.t.Fatal(err)
			}
			out[h.Name] = string(body)
		}
	}
	return out
}

func (r *tenants) attached() int32 {
	rep := r.world.Reports[report.Ref{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: "default", Name: "gw"}]
	return rep.Listeners[0].AttachedRoutes
}

// placed returns the numbers of the accepted routes among r0 to r(n-1).
func (r *tenants) placed(namespace string, n int) (out []int) {
	for i := range n {
		if r.accepted(namespace, fmt.Sprint("r", i)).Status == report.True {
			out = append(out, i)
		}
	}
	return out
}

func (r *tenants) budget(milliseconds int32) {
	r.t.Helper()
	fleet := &v1alpha1.EnvoyFleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fleet"}}
	fleet.Spec.Routes = &v1alpha1.FleetRoutes{BudgetMilliseconds: milliseconds}
	gw, _ := store.Gateways.Get(r.store.View(), "default/gw")
	gw = gw.DeepCopy()
	gw.Spec.Infrastructure = fleetRef("fleet")
	r.apply(store.EnvoyFleets.Put(fleet), store.Gateways.Put(gw))
}

func TestRouteBudget_LargeRoutesOfANamespaceLeaveItsNeighboursAlone(t *testing.T) {
	r := newTenants(t)
	r.put(largeRoute("neighbour", "small", 99, 1), largeRoute("default", "own", 99, 128))
	before := r.hosts()
	const n = 30
	var routes []*gatewayv1.HTTPRoute
	for i := range n { // the last route is the oldest
		routes = append(routes, largeRoute("attacker", fmt.Sprint("r", i), int64(100-i), 128))
	}
	r.put(routes...)
	placed := r.placed("attacker", n)
	if len(placed) < 5 || len(placed) > n/2 || placed[0] != n-len(placed) {
		t.Fatalf("routes with a place are %v, want the oldest of them, some 13", placed)
	}
	hosts := r.hosts()
	if len(hosts) != len(before)+len(placed) || r.attached() != int32(2+len(placed)) {
		t.Errorf("Envoy has %d hosts, the listener %d routes; %d of the attacker have a place, want %d and %d",
			len(hosts), r.attached(), len(placed), len(before)+len(placed), 2+len(placed))
	}
	for name, body := range before {
		if hosts[name] != body {
			t.Errorf("host %s is another one beside the attacker's routes, want it unchanged", name)
		}
	}
	for _, route := range [][2]string{{"neighbour", "small"}, {"default", "own"}} {
		if c := r.accepted(route[0], route[1]); c.Status != report.True {
			t.Errorf("%s: %+v, want Status %v", route, c, report.True)
		}
	}
	c := r.accepted("attacker", "r0")
	for _, want := range []string{"namespace attacker", "40ms", "http/80 of Gateway default/gw",
		"128 Envoy routes, 2048 conditions", "routes.budgetMilliseconds"} {
		if c.Reason != "RouteBudgetExceeded" || !strings.Contains(c.Message, want) {
			t.Errorf("the condition has no %q: %+v", want, c)
		}
	}
	r.apply(store.HTTPRoutes.Delete(fmt.Sprint("attacker/r", n-1)))
	if got := r.placed("attacker", n-1); len(got) != len(placed) || got[0] != placed[0]-1 {
		t.Errorf("without the oldest, routes with a place are %v; they were %v, want as many, the next oldest first",
			got, placed)
	}
}

func TestRouteBudget_RouteThatNeverFitsTakesNoPlace(t *testing.T) {
	r := newTenants(t)
	huge := largeRoute("a", "huge", 1, 128)
	for i := range 15 {
		huge.Spec.Hostnames = append(huge.Spec.Hostnames, gatewayv1.Hostname(fmt.Sprintf("h%d.example", i)))
	}
	r.put(huge, largeRoute("a", "r0", 2, 128))
	c := r.accepted("a", "huge")
	if c.Reason != "RouteBudgetExceeded" || !strings.Contains(c.Message, "this route alone takes") {
		t.Errorf("16 hosts with 128 matches each: got %+v, want RouteBudgetExceeded by this route alone", c)
	}
	if c := r.accepted("a", "r0"); c.Status != report.True {
		t.Errorf("a newer route that fits: %+v, want Status %v", c, report.True)
	}
	huge = largeRoute("a", "huge", 1, 128)
	r.put(huge)
	if c := r.accepted("a", "huge"); c.Status != report.True {
		t.Errorf("on one host: %+v, want Status %v", c, report.True)
	}
}

func TestRouteBudget_GatewaysOwnerSetsIt(t *testing.T) {
	r := newTenants(t)
	const n = 30
	for i := range n {
		r.put(largeRoute("a", fmt.Sprint("r", i), int64(i), 128))
	}
	usual := len(r.placed("a", n))
	budget := func(milliseconds int32) int {
		r.budget(milliseconds)
		return len(r.placed("a", n))
	}
	if got := budget(0); got != usual {
		t.Errorf("%d routes have a place with 0, want %d, as by default", got, usual)
	}
	if got := budget(10); got == 0 || got >= usual {
		t.Errorf("%d routes have a place with 10 ms, want some, and fewer than the %d by default", got, usual)
	}
	if got := budget(1000); got != n {
		t.Errorf("%d of %d routes have a place with a second, want all", got, n)
	}
	// While the Gateway's parameters are missing, running routes stay.
	r.apply(store.EnvoyFleets.Delete("default/fleet"))
	if got := len(r.placed("a", n)); got != n {
		t.Errorf("%d of %d routes have a place without the EnvoyFleet, want all", got, n)
	}
}

func TestRouteBudget_ChangeFarBelowItLooksAtNoOtherRoute(t *testing.T) {
	r := newTenants(t)
	var routes []*gatewayv1.HTTPRoute
	for i := range 300 {
		name := fmt.Sprint("r", i)
		routes = append(routes, largeRoute("a", name, 1, 1), largeRoute("default", name, 1, 1))
	}
	r.put(routes...)
	out := r.put(largeRoute("a", "r7", 1, 2))
	if !strings.Contains(out.Work, "charges=1/1") || !strings.Contains(out.Work, "cuts=0/1") {
		t.Errorf(`a change of costs computed %s, want a text with "charges=1/1" and a text with "cuts=0/1"`, out.Work)
	}
	for _, row := range r.tr.ExplainRow("{default/gw http/80 a}") {
		for _, read := range row.Reads {
			if row.Table == "cuts" && strings.HasPrefix(read, "charges by budget") {
				t.Errorf("the budget of a namespace with 300 small routes has read all of them, want sums: %s", read)
			}
		}
	}
	out = r.put(largeRoute("default", "r7", 1, 2))
	if strings.Contains(out.Work, "charges") {
		t.Errorf("a change in the Gateway's own namespace computed %s, want no charges", out.Work)
	}
}

func TestRouteBudget_WildcardHostnamesAreBoundedInNarrowerHosts(t *testing.T) {
	r := newTenants(t)
	wide := largeRoute("attacker", "r0", 1, 128)
	wide.Spec.Hostnames = nil
	r.put(wide, largeRoute("neighbour", "small", 1, 1))
	conditions := func() int { return strings.Count(r.hosts()["small.neighbour.example"], "x-15") }
	if got := conditions(); got != 128 { // both routes have one equal match, which counts once
		t.Errorf("beside one host, it has %d matches, want the wider hostname's too", got)
	}
	var routes []*gatewayv1.HTTPRoute
	for i := range 50 {
		routes = append(routes, largeRoute("neighbour", fmt.Sprint("r", i), 1, 1))
	}
	r.put(routes...)
	if got := conditions(); got != 1 {
		t.Errorf("beside 50 hosts, it has %d matches, want its own alone", got)
	}
	rep := r.world.Reports[report.Ref{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: "attacker", Name: "r0"}]
	warned := slices.ContainsFunc(rep.Findings, func(f report.Finding) bool {
		return f.Severity == report.Warning && strings.Contains(f.Problem, "narrower hosts") && f.Fix != ""
	})
	if c := r.accepted("attacker", "r0"); c.Status != report.True || !warned {
		t.Errorf("the wide route: got %+v, findings %v; want it accepted, with a Warning about narrower hosts",
			c, rep.Findings)
	}
	if r.hosts()["*"] == "" {
		t.Error("the wide route's own host is gone")
	}
}
