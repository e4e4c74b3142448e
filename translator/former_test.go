package translator_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

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
			t.Errorf("%s: before the change the route has %q, want default/p: %v", name, got, w.effective(c.gateway))
		}
		w.apply(store.AccessPolicies.Put(gate("p", c.after...)))
		if got := w.effective(c.gateway)[c.route]; got != "default/p" {
			t.Errorf("%s: after the change the route has %q, want default/p", name, got)
		}
		rep := w.report("AccessPolicy", "p")
		problem := rep.Findings[len(rep.Findings)-1].Problem
		if kind, _, _ := strings.Cut(c.before[0], " "); !strings.Contains(problem, "former targets stay gated") &&
			!strings.Contains(problem, kind) {
			t.Errorf("%s: findings %+v, want the last about former targets or the kind", name, rep.Findings)
		}
		if a := report.Find(rep.Conditions, "Accepted"); a == nil || !strings.Contains(a.Message, "stay gated") {
			t.Errorf(`%s: conditions %+v, want Accepted with "stay gated"`, name, rep.Conditions)
		}
	}
}

// A mistyped policy stops gating its former target once all its targets exist, or once the policy
// is removed.
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

const onWeb, onAlt = "http/81 HTTPRoute/default/named/a", "http/82 HTTPRoute/default/named/a"

func inOneStep(edit func(*gateWorld) []store.Op) func(*gateWorld) {
	return func(w *gateWorld) { w.apply(edit(w)...) }
}

// renames lists changes of a policy's targets, and the expected policies of the routes afterwards.
var renames = map[string]struct {
	target  string
	change  func(*gateWorld)
	gateway string
	want    map[string]string
}{
	"listener": {"Gateway other http", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.Gateways.Put(w.listeners("other", "web", "alt"))}
	}), "other", map[string]string{onWeb: "default/p", onAlt: ""}},
	"listener, in two steps": {"Gateway other http", func(w *gateWorld) {
		w.apply(store.Gateways.Put(w.listeners("other", "alt")))
		w.apply(store.Gateways.Put(w.listeners("other", "web", "alt")))
	}, "other", map[string]string{onWeb: "default/p", onAlt: ""}},
	"listener, twice": {"Gateway other http", func(w *gateWorld) {
		w.apply(store.Gateways.Put(w.listeners("other", "web", "alt")))
		w.apply(store.Gateways.Put(w.listeners("other", "last", "alt")))
	}, "other", map[string]string{onWeb: "default/p", onAlt: ""}},
	"listener, with an edit of the policy": {"Gateway other http", func(w *gateWorld) {
		p := gate("p", "Gateway other http")
		p.Labels = map[string]string{"a": "b"}
		w.apply(store.Gateways.Put(w.listeners("other", "web", "alt")), store.AccessPolicies.Put(p))
	}, "other", map[string]string{onWeb: "default/p", onAlt: ""}},
	"listener, into a ListenerSet": {"Gateway other http", func(w *gateWorld) {
		g := w.listeners("other", "alt")
		g.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{
			From: ptr(gatewayv1.NamespacesFromSame)}}
		set := &gatewayv1.ListenerSet{}
		set.Namespace, set.Name = "default", "set"
		set.Spec.ParentRef.Name = "other"
		set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "http", Port: 81,
			Protocol: gatewayv1.HTTPProtocolType}}
		w.apply(store.Gateways.Put(g), store.ListenerSets.Put(set), store.HTTPRoutes.Put(w.route("named",
			func(r *gatewayv1.HTTPRoute) {
				r.Spec.ParentRefs = append(r.Spec.ParentRefs, gatewayv1.ParentReference{Name: "set",
					Kind: ptr(gatewayv1.Kind("ListenerSet")), Group: ptr(gatewayv1.Group(gatewayv1.GroupName))})
			})))
	}, "other", map[string]string{onWeb: "default/p", onAlt: ""}},
	"rule": {"HTTPRoute named a", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.HTTPRoutes.Put(w.route("named", func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Name = ptr(gatewayv1.SectionName("c"))
		}))}
	}), "other", map[string]string{"http/81 HTTPRoute/default/named/c": "default/p",
		"http/81 HTTPRoute/default/named/b": ""}},
	"rule, to no name": {"HTTPRoute named a", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.HTTPRoutes.Put(w.route("named", func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules[0].Name = nil
		}))}
	}), "other", map[string]string{"http/81 HTTPRoute/default/named": "default/p",
		"http/81 HTTPRoute/default/named/b": "default/p"}},
	"rule, removed": {"HTTPRoute named a", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.HTTPRoutes.Put(w.route("named", func(r *gatewayv1.HTTPRoute) {
			r.Spec.Rules = r.Spec.Rules[1:]
		}))}
	}), "other", map[string]string{"http/81 HTTPRoute/default/named/b": ""}},
	"route": {"HTTPRoute r", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.HTTPRoutes.Delete("default/r"),
			store.HTTPRoutes.Put(w.route("r", func(r *gatewayv1.HTTPRoute) { r.Name = "chat" }))}
	}), "gw", map[string]string{"http/80 HTTPRoute/default/chat": "default/p"}},
	"route, created first": {"HTTPRoute r", func(w *gateWorld) {
		w.apply(store.HTTPRoutes.Put(w.route("r", func(r *gatewayv1.HTTPRoute) { r.Name = "z" })))
		w.apply(store.HTTPRoutes.Delete("default/r"))
	}, "gw", map[string]string{"http/80 HTTPRoute/default/z": "default/p"}},
	"route, removed first": {"HTTPRoute named a", func(w *gateWorld) {
		later := w.route("named", func(r *gatewayv1.HTTPRoute) { r.Name = "later" })
		w.apply(store.HTTPRoutes.Delete("default/named"))
		w.apply(store.HTTPRoutes.Put(later))
	}, "other", map[string]string{"http/81 HTTPRoute/default/later/a": "default/p",
		"http/81 HTTPRoute/default/later/b": ""}},
	"route, with more hosts": {"HTTPRoute named", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.HTTPRoutes.Delete("default/named"),
			store.HTTPRoutes.Put(w.route("named", func(r *gatewayv1.HTTPRoute) {
				r.Name, r.Spec.Hostnames = "later", []gatewayv1.Hostname{"*.example"}
			}))}
	}), "other", map[string]string{"http/81 HTTPRoute/default/later/a": "default/p"}},
	"route, with more paths": {"HTTPRoute named", inOneStep(func(w *gateWorld) []store.Op {
		return []store.Op{store.HTTPRoutes.Delete("default/named"),
			store.HTTPRoutes.Put(w.route("named", func(r *gatewayv1.HTTPRoute) {
				r.Name, r.Spec.Rules[0].Matches = "later", nil
				r.Spec.Rules = r.Spec.Rules[:1]
			}))}
	}), "other", map[string]string{"http/81 HTTPRoute/default/later/a": "default/p"}},
	"route for other paths": {"HTTPRoute named", func(w *gateWorld) {
		later := w.route("named", func(r *gatewayv1.HTTPRoute) {
			r.Name, r.Spec.Rules = "later", r.Spec.Rules[:1]
			r.Spec.Rules[0].Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{
				Value: ptr("/elsewhere")}}}
		})
		w.apply(store.HTTPRoutes.Delete("default/named"))
		w.apply(store.HTTPRoutes.Put(later))
	}, "other", map[string]string{"http/81 HTTPRoute/default/later/a": ""}},
	"route for another host": {"HTTPRoute named", func(w *gateWorld) {
		later := w.route("named", func(r *gatewayv1.HTTPRoute) {
			r.Name, r.Spec.Hostnames = "later", []gatewayv1.Hostname{"later.example"}
		})
		w.apply(store.HTTPRoutes.Delete("default/named"))
		w.apply(store.HTTPRoutes.Put(later))
	}, "other", map[string]string{"http/81 HTTPRoute/default/later/a": ""}},
	"pool": {"InferencePool first", inOneStep(func(w *gateWorld) []store.Op {
		pool, _ := store.InferencePools.Get(w.store.View(), "default/first")
		renamed := pool.DeepCopy()
		renamed.Name = "second"
		return []store.Op{store.InferencePools.Delete("default/first"), store.InferencePools.Put(renamed),
			store.HTTPRoutes.Put(w.route("r", func(r *gatewayv1.HTTPRoute) {
				r.Spec.Rules[0].BackendRefs[0].Name = "second"
			}))}
	}), "gw", map[string]string{"http/80 HTTPRoute/default/r": "default/p"}},
	"Gateway": {"Gateway gw http", inOneStep(func(w *gateWorld) []store.Op {
		g := w.listeners("gw", "http")
		g.Name = "gw2"
		return []store.Op{store.Gateways.Delete("default/gw"), store.Gateways.Put(g),
			store.HTTPRoutes.Put(w.route("r", func(r *gatewayv1.HTTPRoute) { r.Spec.ParentRefs[0].Name = "gw2" }))}
	}), "gw2", map[string]string{"http/80 HTTPRoute/default/r": "default/p"}},
}

func TestAccessPolicy_RenamedTargetStaysGated(t *testing.T) {
	for name, c := range renames {
		t.Run(name, func(t *testing.T) {
			w := newGateWorld(t)
			w.apply(store.AccessPolicies.Put(gate("p", c.target)))
			c.change(w)
			got := w.effective(c.gateway)
			for route, policy := range c.want {
				if have, found := got[route]; have != policy || !found {
					t.Errorf("%s has %q, want %q: %v", route, have, policy, got)
				}
			}
			rep := w.report("AccessPolicy", "p")
			if a := report.Find(rep.Conditions, "Accepted"); a == nil || a.Status != report.False ||
				len(rep.Findings) == 0 || slices.Contains(slices.Collect(maps.Values(c.want)), "default/p") &&
				!strings.Contains(a.Message, "stay gated") {
				t.Errorf("conditions %+v, findings %+v; want not accepted with a finding, and former targets that "+
					"stay gated", rep.Conditions, rep.Findings)
			}
			w.apply(store.AccessPolicies.Delete("default/p"))
			for route, policy := range w.effective(c.gateway) {
				if policy != "" {
					t.Errorf("without the policy, %s has %q, want none", route, policy)
				}
			}
		})
	}
}

func TestAccessPolicy_WrittenBeforeItsListenerGatesNoOther(t *testing.T) {
	w := newGateWorld(t)
	w.apply(store.AccessPolicies.Put(gate("p", "Gateway other later")))
	w.apply(store.Gateways.Put(w.listeners("other", "http", "alt", "new")))
	for route, policy := range w.effective("other") {
		if policy != "" {
			t.Errorf("%s has %q, want none", route, policy)
		}
	}
}

// listeners returns the Gateway with these HTTP listeners: on port 80 for gw, otherwise on ports
// 81, 91 and so on, and on port 82 for alt.
func (w *gateWorld) listeners(gateway string, names ...string) *gatewayv1.Gateway {
	old, _ := store.Gateways.Get(w.store.View(), "default/"+gateway)
	g := old.DeepCopy()
	g.Spec.Listeners = nil
	for i, name := range names {
		port := gatewayv1.PortNumber(81 + i*10)
		switch {
		case gateway == "gw":
			port = 80
		case name == "alt":
			port = 82
		}
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{Name: gatewayv1.SectionName(name), Port: port,
			Protocol: gatewayv1.HTTPProtocolType})
	}
	return g
}

func (w *gateWorld) route(name string, edit func(*gatewayv1.HTTPRoute)) *gatewayv1.HTTPRoute {
	old, _ := store.HTTPRoutes.Get(w.store.View(), "default/"+name)
	r := old.DeepCopy()
	edit(r)
	return r
}
