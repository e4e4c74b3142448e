package translator_test

import (
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// A typing error in a valid policy would otherwise open what the policy gates.
func TestAccessPolicy_MistypedTargetLeavesTheFormerOneGated(t *testing.T) {
	const onGw, onRuleA = "http/80 HTTPRoute/default/r", "http/81 HTTPRoute/default/named/a"
	for name, c := range map[string]struct {
		before, after  []string
		gateway, route string
	}{
		"another name":    {[]string{"Gateway gw"}, []string{"Gateway gww"}, "gw", onGw},
		"another kind":    {[]string{"Gateway gw"}, []string{"HTTPRoute gw"}, "gw", onGw},
		"a section":       {[]string{"Gateway gw"}, []string{"Gateway gw htp"}, "gw", onGw},
		"another section": {[]string{"Gateway gw http"}, []string{"Gateway gw htp"}, "gw", onGw},
		"another rule":    {[]string{"HTTPRoute named a"}, []string{"HTTPRoute named c"}, "other", onRuleA},
		"another pool":    {[]string{"InferencePool first"}, []string{"InferencePool frist"}, "gw", onGw},
		"one of two": {[]string{"Gateway other", "Gateway gw"}, []string{"Gateway other", "Gateway gww"}, "gw",
			onGw},
		"a second mistake":  {[]string{"Gateway gw", "Gateway gone"}, []string{"Gateway gw2"}, "gw", onGw},
		"route and Gateway": {[]string{"HTTPRoute r"}, []string{"Gateway r"}, "gw", onGw},
	} {
		w := newGateWorld(t)
		w.apply(store.AccessPolicies.Put(gate("p", c.before...)))
		if got := w.effective(c.gateway)[c.route]; got != "default/p" {
			t.Errorf("%s: before the change the route has %q: %v", name, got, w.effective(c.gateway))
		}
		w.apply(store.AccessPolicies.Put(gate("p", c.after...)))
		if got := w.effective(c.gateway)[c.route]; got != "default/p" {
			t.Errorf("%s: after the change the route has %q", name, got)
		}
		rep := w.report("AccessPolicy", "p")
		problem := rep.Findings[len(rep.Findings)-1].Problem
		if kind, _, _ := strings.Cut(c.before[0], " "); !strings.Contains(problem, "former targets stay gated") &&
			!strings.Contains(problem, kind) {
			t.Errorf("%s: findings %+v", name, rep.Findings)
		}
		if a := report.Find(rep.Conditions, "Accepted"); a == nil || !strings.Contains(a.Message, "stay gated") {
			t.Errorf("%s: conditions %+v", name, rep.Conditions)
		}
	}
}

// The former target opens once all targets exist, whether the policy is corrected or the target is
// created, and when the policy is removed.
func TestAccessPolicy_FormerTargetOpensWithTheCorrection(t *testing.T) {
	const route = "http/80 HTTPRoute/default/r"
	w := newGateWorld(t)
	gated := func(what, want string) {
		t.Helper()
		if got := w.effective("gw")[route]; got != want {
			t.Errorf("%s: the route has %q, want %q", what, got, want)
		}
	}
	mistype := func() {
		w.apply(store.AccessPolicies.Put(gate("p", "Gateway gw")))
		w.apply(store.AccessPolicies.Put(gate("p", "Gateway later")))
		gated("mistyped", "default/p")
	}
	mistype()
	w.apply(store.AccessPolicies.Put(gate("p", "Gateway other")))
	gated("corrected", "")
	mistype()
	later := &gatewayv1.Gateway{}
	later.Namespace, later.Name, later.Spec.GatewayClassName = "default", "later", "penstock"
	w.apply(store.Gateways.Put(later))
	gated("created", "")
	w.apply(store.Gateways.Delete("default/later"))
	gated("removed again", "") // the policy was in force at the new target
	mistype()
	w.apply(store.AccessPolicies.Delete("default/p"))
	gated("policy removed", "")
	mistype()
	moved := gate("p", "Gateway gw")
	moved.Namespace = "defualt"
	w.apply(store.AccessPolicies.Delete("default/p"), store.AccessPolicies.Put(moved))
	gated("namespace mistyped", "defualt/p")
	w.apply(store.AccessPolicies.Delete("defualt/p"), store.AccessPolicies.Put(gate("p", "Gateway gw")))
	gated("namespace corrected", "default/p")
	gateway, _ := store.Gateways.Get(w.store.View(), "default/gw")
	w.apply(store.Gateways.Delete("default/gw"))
	w.apply(store.Gateways.Put(gateway))
	gated("target removed and created", "default/p")
	w.apply(store.AccessPolicies.Put(closed("p", "Gateway gw")))
	w.apply(store.AccessPolicies.Put(gate("p", "Gateway gww")))
	gated("valid again, with another mistake", "default/p")
}
