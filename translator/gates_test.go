package translator_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

// gate returns a policy for targets such as "Gateway gw", "Gateway gw http" or "InferencePool
// first".
func gate(name string, targets ...string) *v1alpha1.AccessPolicy {
	p := &v1alpha1.AccessPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.APIKeys = &v1alpha1.AccessKeys{}
	for _, t := range targets {
		parts := append(strings.Fields(t), "", "")
		p.Spec.TargetRefs = append(p.Spec.TargetRefs,
			v1alpha1.AccessTarget{Kind: parts[0], Name: parts[1], SectionName: parts[2]})
	}
	return p
}

// closed returns the policy that replaces an invalid policy and denies all requests. A target
// without a name stands for all objects of the kind.
func closed(name string, targets ...string) *v1alpha1.AccessPolicy {
	p := v1alpha1.ClosedAccessPolicy("default", name, nil, v1alpha1.ClosedInvalid)
	if len(targets) > 0 {
		p.Spec.TargetRefs = gate(name, targets...).Spec.TargetRefs
	}
	return p
}

var hash = regexp.MustCompile("/[0-9a-f]{16}$")

type gateWorld struct {
	t          *testing.T
	store      *store.Store
	translator *translator.Translator
	reports    map[report.Ref]report.Report
	gates      map[string][]string
}

// newGateWorld extends spillWorld: the pool first spills to zebra, Gateway other has an HTTPRoute
// with named rules, and a TCPRoute.
func newGateWorld(t *testing.T) *gateWorld {
	t.Helper()
	w := &gateWorld{t: t, store: store.New(), translator: translator.New(config()),
		reports: map[report.Ref]report.Report{}, gates: map[string][]string{}}
	spills := &v1alpha1.PoolPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	spills.Spec.TargetRef.Name, spills.Spec.Spill = "first", []v1alpha1.PoolRef{{Name: "zebra"}}
	other := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "penstock", Listeners: []gatewayv1.Listener{
			{Name: "http", Port: 81, Protocol: gatewayv1.HTTPProtocolType},
			{Name: "alt", Port: 82, Protocol: gatewayv1.HTTPProtocolType},
			{Name: "tcp", Port: 83, Protocol: gatewayv1.TCPProtocolType},
		}}}
	named := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "named"}}
	named.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "other"}}
	named.Spec.Hostnames = []gatewayv1.Hostname{"named.example"}
	rule := func(name string) gatewayv1.HTTPRouteRule {
		to := gatewayv1.PreciseHostname("elsewhere.example")
		return gatewayv1.HTTPRouteRule{
			Name: ptr(gatewayv1.SectionName(name)),
			Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{
				Type: ptr(gatewayv1.PathMatchPathPrefix), Value: ptr("/" + name)}}},
			Filters: []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect,
				RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: &to}}},
		}
	}
	named.Spec.Rules = []gatewayv1.HTTPRouteRule{rule("a"), rule("b")}
	streams := &gatewayv1.TCPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	streams.Spec.ParentRefs = []gatewayv1.ParentReference{
		{Name: "other", SectionName: ptr(gatewayv1.SectionName("tcp"))},
	}
	streams.Spec.Rules = []gatewayv1.TCPRouteRule{{}}
	w.apply(append(spillWorld(), store.PoolPolicies.Put(spills), store.Gateways.Put(other), store.HTTPRoutes.Put(named),
		store.TCPRoutes.Put(streams))...)
	return w
}

func (w *gateWorld) apply(ops ...store.Op) translator.Output {
	w.t.Helper()
	rev, err := w.store.Apply(ops...)
	if err != nil {
		w.t.Fatal(err)
	}
	out := w.translator.Update(w.store.View(), rev.Changes)
	if out.Err != nil || len(out.Panics) > 0 {
		w.t.Fatal(out.Err, out.Panics)
	}
	for _, r := range out.Reports {
		w.reports[r.Owner] = r
	}
	for _, g := range out.Gates {
		w.gates[g.Policy] = g.Gateways
	}
	return out
}

// effective returns the policies of each route in a Gateway's route configurations. The keys are
// route names without the hash. The test fails if a route's filters lock and gate differ.
func (w *gateWorld) effective(gateway string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, r := range w.translator.Resources("default/" + gateway) {
		// hops have no policies
		if r.Type != resource.RouteConfiguration || r.Name == model.HopListener {
			continue
		}
		var rc routev3.RouteConfiguration
		if err := proto.Unmarshal(r.Body(), &rc); err != nil {
			w.t.Fatal(err)
		}
		for _, name := range []string{"gate", "gate-early"} {
			var off authzv3.ExtAuthzPerRoute
			if err := rc.GetTypedPerFilterConfig()[name].UnmarshalTo(&off); err != nil || !off.GetDisabled() {
				w.t.Errorf("%s does not switch %s off, want it disabled: %v", rc.GetName(), name, err)
			}
		}
		for _, vh := range rc.GetVirtualHosts() {
			for _, route := range vh.GetRoutes() {
				name := route.GetName()
				name = hash.ReplaceAllString(name, "")
				out[fmt.Sprint(model.ChainOfRoutes(rc.GetName()), " ", name)] = w.policies(vh.GetTypedPerFilterConfig(),
					route.GetTypedPerFilterConfig())
			}
		}
	}
	return out
}

func (w *gateWorld) policies(levels ...map[string]*anypb.Any) string {
	w.t.Helper()
	var gate authzv3.ExtAuthzPerRoute
	var lock rbacv3.RBACPerRoute
	for _, level := range levels {
		if c := level["gate"]; c != nil {
			if err := c.UnmarshalTo(&gate); err != nil {
				w.t.Fatal(err)
			}
		}
		if c := level["rbac"]; c != nil {
			if err := c.UnmarshalTo(&lock); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	asked := gate.GetCheckSettings().GetContextExtensions()["policies"]
	var locked []string
	for _, p := range lock.GetRbac().GetRules().GetPolicies()["decided"].GetPrincipals() {
		for _, id := range p.GetAndIds().GetIds() {
			locked = append(locked, id.GetSourcedMetadata().GetMetadataMatcher().GetValue().GetListMatch().GetOneOf().
				GetStringMatch().GetExact())
		}
	}
	if asked != strings.Join(locked, ",") {
		w.t.Errorf("the gate asks for %q, and the lock requires %q; want the same", asked, locked)
	}
	return asked
}

func (c *chaos) accessPolicy() (store.Op, func(string) store.Op, string) {
	p := &v1alpha1.AccessPolicy{ObjectMeta: c.numbered("access", 3)}
	p.CreationTimestamp = metav1.Unix(int64(c.IntN(2)), 0)
	p.Spec.Ungated = pick(c, v1alpha1.UngatedAllow, v1alpha1.UngatedDeny)
	p.Spec.ByModel = c.IntN(3) == 0
	p.Spec.Revoke = pick(c, v1alpha1.RevokeAtEnd, v1alpha1.RevokeImmediately)
	if c.IntN(3) == 0 {
		p.Spec.Except = []v1alpha1.AccessException{{Name: fmt.Sprint("route", c.IntN(4))}}
	}
	for range 1 + c.IntN(2) {
		p.Spec.TargetRefs = append(p.Spec.TargetRefs, pick(c,
			v1alpha1.AccessTarget{Kind: "Gateway", Name: fmt.Sprint("gw", c.IntN(2)),
				SectionName: pick(c, "", "", "http")},
			v1alpha1.AccessTarget{Kind: "HTTPRoute", Name: fmt.Sprint("route", c.IntN(4))},
			v1alpha1.AccessTarget{Kind: "GRPCRoute", Name: fmt.Sprint("route", c.IntN(4))},
			v1alpha1.AccessTarget{Kind: "InferencePool", Name: fmt.Sprint("pool", c.IntN(3))}))
	}
	if c.IntN(4) == 0 {
		p.Spec = v1alpha1.AccessPolicySpec{TargetRefs: p.Spec.TargetRefs, Closed: v1alpha1.ClosedInvalid}
		if c.IntN(2) == 0 {
			p.Spec.TargetRefs[0].Name, p.Spec.TargetRefs[0].SectionName = "", ""
		}
	}
	return made(store.AccessPolicies, p)
}

func TestAccessPolicy_GatesEveryRouteBelowItsTargets(t *testing.T) {
	for _, c := range []struct {
		name     string
		policies []*v1alpha1.AccessPolicy
		gateway  string
		want     map[string]string
	}{
		{"without one", nil, "gw", map[string]string{"http/80 HTTPRoute/default/r": ""}},
		{"a Gateway", []*v1alpha1.AccessPolicy{gate("p", "Gateway gw")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": "default/p"}},
		{"another Gateway", []*v1alpha1.AccessPolicy{gate("p", "Gateway other")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": ""}},
		{"a listener", []*v1alpha1.AccessPolicy{gate("p", "Gateway other alt")}, "other",
			map[string]string{"http/81 HTTPRoute/default/named/a": "", "http/81 HTTPRoute/default/named/b": "",
				"http/82 HTTPRoute/default/named/a": "default/p", "http/82 HTTPRoute/default/named/b": "default/p"}},
		{"a rule", []*v1alpha1.AccessPolicy{gate("p", "HTTPRoute named b"), gate("all", "Gateway other")}, "other",
			map[string]string{
				"http/81 HTTPRoute/default/named/a": "default/all", "http/82 HTTPRoute/default/named/a": "default/all",
				"http/81 HTTPRoute/default/named/b": "default/all,default/p",
				"http/82 HTTPRoute/default/named/b": "default/all,default/p"}},
		{"all levels", []*v1alpha1.AccessPolicy{gate("a", "InferencePool first"), gate("b", "HTTPRoute r"),
			gate("c", "Gateway gw http"), gate("d", "Gateway gw")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": "default/d,default/c,default/b,default/a"}},
		{"a pool that spills get", []*v1alpha1.AccessPolicy{gate("z", "InferencePool zebra")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": "default/z"}},
		{"a closed policy for a rule", []*v1alpha1.AccessPolicy{closed("p", "HTTPRoute named b")}, "other",
			map[string]string{
				"http/81 HTTPRoute/default/named/a": "", "http/82 HTTPRoute/default/named/a": "",
				"http/81 HTTPRoute/default/named/b": "default/p", "http/82 HTTPRoute/default/named/b": "default/p"}},
		{"a closed policy before a valid one",
			[]*v1alpha1.AccessPolicy{closed("a", "Gateway gw"), gate("b", "Gateway gw")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": "default/b"}},
		{"a closed policy for all routes", []*v1alpha1.AccessPolicy{closed("a", "HTTPRoute"), gate("b", "Gateway gw")},
			"gw", map[string]string{"http/80 HTTPRoute/default/r": "default/b,default/a"}},
		{"a closed policy for all pools", []*v1alpha1.AccessPolicy{closed("a", "InferencePool")},
			"gw", map[string]string{"http/80 HTTPRoute/default/r": "default/a"}},
		{"a closed policy for everything", []*v1alpha1.AccessPolicy{closed("a"), gate("b", "HTTPRoute named")}, "other",
			map[string]string{
				"http/81 HTTPRoute/default/named/a": "default/a,default/b",
				"http/82 HTTPRoute/default/named/a": "default/a,default/b",
				"http/81 HTTPRoute/default/named/b": "default/a,default/b",
				"http/82 HTTPRoute/default/named/b": "default/a,default/b"}},
		{"a pool that no request reaches", []*v1alpha1.AccessPolicy{gate("z", "InferencePool alpha")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": ""}},
		{"several targets", []*v1alpha1.AccessPolicy{gate("p", "Gateway nowhere", "HTTPRoute r")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": "default/p"}},
		{"a rival", []*v1alpha1.AccessPolicy{gate("b", "Gateway gw"), gate("a", "Gateway gw")}, "gw",
			map[string]string{"http/80 HTTPRoute/default/r": "default/a"}},
	} {
		w := newGateWorld(t)
		var ops []store.Op
		for _, p := range c.policies {
			ops = append(ops, store.AccessPolicies.Put(p))
		}
		w.apply(ops...)
		got := w.effective(c.gateway)
		for route, policies := range c.want {
			if have, ok := got[route]; !ok || have != policies {
				t.Errorf("%s: %s has %q, want %q; all: %v", c.name, route, have, policies, got)
			}
		}
		for _, p := range c.policies {
			w.apply(store.AccessPolicies.Delete(store.ID(p)))
		}
		for route, policies := range w.effective(c.gateway) {
			if policies != "" {
				t.Errorf("%s: without policies, %s has %q, want none", c.name, route, policies)
			}
		}
	}
}

// A changed listener would drain its connections.
func TestAccessPolicy_AttachingChangesRoutesAlone(t *testing.T) {
	w := newGateWorld(t)
	out := w.apply(store.AccessPolicies.Put(gate("p", "Gateway gw", "InferencePool zebra")))
	if len(out.Deltas) != 1 || out.Deltas[0].Gateway != "default/gw" {
		t.Fatalf("deltas: got %+v, want one of default/gw", out.Deltas)
	}
	for _, r := range out.Deltas[0].Upserts {
		if r.Type != resource.RouteConfiguration {
			t.Error("changes", r.Ref)
		}
	}
	if len(out.Deltas[0].Removes) > 0 {
		t.Error("removes", out.Deltas[0].Removes)
	}
	if !slices.Equal(w.gates["default/p"], []string{"default/gw"}) {
		t.Error("its Gateways:", w.gates)
	}
	if w.apply(store.AccessPolicies.Delete("default/p")); len(w.gates["default/p"]) > 0 {
		t.Error("a deleted policy has Gateways:", w.gates)
	}
}

// Translation does not read APIKeys.
func TestAPIKey_ChangeTouchesNoResource(t *testing.T) {
	w := newGateWorld(t)
	w.apply(store.AccessPolicies.Put(gate("p", "Gateway gw")))
	before := w.translator.Rows()
	for i := range 10 {
		k := &v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("k", i%3)}}
		k.Spec.Hashes = []string{strings.Repeat(fmt.Sprint(i), 64)}
		if out := w.apply(store.APIKeys.Put(k)); len(out.Deltas)+len(out.Reports) > 0 {
			t.Fatalf("got %+v, want no deltas or reports", out)
		}
	}
	if n := w.translator.Rows() - before; n > 0 {
		t.Error(n, "rows are computed")
	}
}

// spec.except exempts routes only in a policy for Gateways, and only from this policy. Other
// policies still apply to these routes.
func TestAccessPolicy_GatewayPolicyOpensRoutes(t *testing.T) {
	except := func(p *v1alpha1.AccessPolicy, kind, namespace, name string) *v1alpha1.AccessPolicy {
		p.Spec.Except = []v1alpha1.AccessException{{Kind: kind, Namespace: namespace, Name: name}}
		return p
	}
	for _, c := range []struct {
		name     string
		policies []*v1alpha1.AccessPolicy
		want     string
	}{
		{"the route", []*v1alpha1.AccessPolicy{except(gate("p", "Gateway gw"), "", "", "r")}, ""},
		{"a listener's policy", []*v1alpha1.AccessPolicy{
			except(gate("p", "Gateway gw http"), "HTTPRoute", "default", "r")}, ""},
		{"another policy", []*v1alpha1.AccessPolicy{except(gate("p", "Gateway gw"), "", "", "r"),
			gate("q", "InferencePool first")}, "default/q"},
		{"another kind", []*v1alpha1.AccessPolicy{except(gate("p", "Gateway gw"), "GRPCRoute", "", "r")}, "default/p"},
		{"another namespace", []*v1alpha1.AccessPolicy{
			except(gate("p", "Gateway gw"), "", "tenant", "r")}, "default/p"},
		{"a route's policy", []*v1alpha1.AccessPolicy{except(gate("p", "HTTPRoute r"), "", "", "r")}, "default/p"},
		{"with another target", []*v1alpha1.AccessPolicy{
			except(gate("p", "Gateway gw", "InferencePool zebra"), "", "", "r")},
			"default/p"},
	} {
		w := newGateWorld(t)
		for _, p := range c.policies {
			w.apply(store.AccessPolicies.Put(p))
		}
		if got := w.effective("gw")["http/80 HTTPRoute/default/r"]; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestAccessPolicy_ReportsExceptionsThatNameNoRoute(t *testing.T) {
	w := newGateWorld(t)
	p := gate("p", "Gateway other")
	p.Spec.Except = []v1alpha1.AccessException{{Name: "nmed"}, {Name: "named"}, {Kind: "GRPCRoute", Name: "named"}}
	w.apply(store.AccessPolicies.Put(p))
	check := func(step string, want ...string) {
		t.Helper()
		var got []string
		for _, f := range w.report("AccessPolicy", "p").Findings {
			got = append(got, string(f.Severity)+" "+f.Field+" "+f.Problem)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: findings %q, want %q", step, got, want)
		}
	}
	const first = "warning spec.except[0] it opens nothing: HTTPRoute default/nmed does not exist: did you mean " +
		"default/named?"
	const second = "warning spec.except[2] it opens nothing: GRPCRoute default/named does not exist"
	check("mistyped", first, second)
	route := w.route("named", func(r *gatewayv1.HTTPRoute) { r.Name = "nmed" })
	w.apply(store.HTTPRoutes.Put(route))
	check("with such a route", second)
	w.apply(store.HTTPRoutes.Delete("default/nmed"))
	check("removed", first, second)
}

func TestAccessPolicy_ReportsItsAncestorsAndProblems(t *testing.T) {
	w := newGateWorld(t)
	young := gate("young", "Gateway gw")
	young.CreationTimestamp = metav1.NewTime(time.Unix(2000, 0))
	old := gate("zold", "Gateway gw", "HTTPRoute named a")
	old.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	lost := gate("lost", "HTTPRoute named c", "GRPCRoute r")
	broken := gate("broken", "InferencePool first")
	broken.Spec.APIKeys.Selector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Like"}},
	}
	for _, p := range []*v1alpha1.AccessPolicy{young, old, lost, broken} {
		w.apply(store.AccessPolicies.Put(p))
	}
	for name, want := range map[string]string{
		"zold": "gw Accepted True Accepted, gw Programmed True Programmed, other Accepted True Accepted, " +
			"other Programmed True Programmed", "young": "gw Accepted False Conflicted",
		"lost": "other Accepted False TargetNotFound", "broken": "gw Accepted False Invalid",
	} {
		rep := w.reports[report.Ref{Group: "penstock.dev", Kind: "AccessPolicy", Namespace: "default", Name: name}]
		var got []string
		for _, p := range rep.Parents {
			for _, c := range p.Conditions {
				got = append(got, strings.Join([]string{p.Ref.Name, c.Type, c.Status, c.Reason}, " "))
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
		if len(rep.Findings) == 0 != (name == "zold") {
			t.Errorf("%s: got findings %+v, want some: %t", name, rep.Findings, name != "zold")
		}
	}
	if got := w.effective("gw")["http/80 HTTPRoute/default/r"]; got != "default/zold,default/broken" {
		t.Error("the route has", got) // an invalid policy still gates
	}
}

// If a policy's jwt names a missing object, the policy still gates. Its report names the missing
// object's field.
func TestAccessPolicy_ReportsMissingObjectsOfItsIssuer(t *testing.T) {
	w := newGateWorld(t)
	p := gate("staff", "Gateway gw")
	p.Spec.APIKeys, p.Spec.JWT = nil, &v1alpha1.AccessJWT{Issuer: "https://sso.example", Audiences: []string{"models"},
		TokenSecretRef: &v1alpha1.AccessObject{Name: "fetch"}, Claims: v1alpha1.AccessClaims{Models: "models"}}
	found := func() (accepted string, fields []string) {
		rep := w.reports[report.Ref{Group: "penstock.dev", Kind: "AccessPolicy", Namespace: "default", Name: "staff"}]
		for _, f := range rep.Findings {
			fields = append(fields, string(f.Severity)+" "+f.Field)
		}
		return report.Find(rep.Conditions, "Accepted").Reason, fields
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fetch"},
		StringData: map[string]string{"token": "t"}}
	for _, c := range []struct {
		change store.Op
		reason string
		fields []string
	}{
		{store.AccessPolicies.Put(p), "Invalid",
			[]string{"error spec.jwt.tokenSecretRef", "warning spec.jwt.claims.models"}},
		{store.Secrets.Put(secret), "Accepted", []string{"warning spec.jwt.claims.models"}},
		{store.Secrets.Delete("default/fetch"), "Invalid",
			[]string{"error spec.jwt.tokenSecretRef", "warning spec.jwt.claims.models"}},
	} {
		w.apply(c.change)
		if reason, fields := found(); reason != c.reason || !slices.Equal(fields, c.fields) {
			t.Errorf("got %s %v, want %s %v", reason, fields, c.reason, c.fields)
		}
		if got := w.effective("gw")["http/80 HTTPRoute/default/r"]; got != "default/staff" {
			t.Error("the route has", got)
		}
	}
}

// No AccessPolicy can decide about TCP connections. So a TCPRoute behind a policy is not accepted,
// except with spec.ungated: Allow.
func TestAccessPolicy_ForbidsRoutesThatNoGateReads(t *testing.T) {
	w := newGateWorld(t)
	accepted := func() string {
		rep := w.reports[report.Ref{Group: "gateway.networking.k8s.io", Kind: "TCPRoute", Namespace: "default",
			Name: "db"}]
		c := report.Find(rep.Parents[0].Conditions, "Accepted")
		return c.Status + " " + c.Reason
	}
	allows := func(p *v1alpha1.AccessPolicy) *v1alpha1.AccessPolicy {
		p.Spec.Ungated = v1alpha1.UngatedAllow
		return p
	}
	if got := accepted(); got != "True Accepted" {
		t.Fatal("without a policy:", got)
	}
	for _, c := range []struct {
		policies []*v1alpha1.AccessPolicy
		want     string
	}{
		{[]*v1alpha1.AccessPolicy{gate("p", "Gateway other")}, "False Ungated"},
		{[]*v1alpha1.AccessPolicy{gate("p", "Gateway other tcp")}, "False Ungated"},
		{[]*v1alpha1.AccessPolicy{gate("p", "Gateway other http")}, "True Accepted"},
		{[]*v1alpha1.AccessPolicy{allows(gate("p", "Gateway other"))}, "True Accepted"},
		{[]*v1alpha1.AccessPolicy{allows(gate("p", "Gateway other")), gate("q", "Gateway other tcp")}, "False Ungated"},
	} {
		for _, p := range c.policies {
			w.apply(store.AccessPolicies.Put(p))
		}
		if got := accepted(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.policies[0].Spec, got, c.want)
		}
		w.apply(store.AccessPolicies.Delete("default/p"), store.AccessPolicies.Delete("default/q"))
	}
	if got := accepted(); got != "True Accepted" {
		t.Error("at last:", got)
	}
}
