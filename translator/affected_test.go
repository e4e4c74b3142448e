package translator_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// affected returns the messages of an object's AccessPolicyAffected conditions. The keys are "" for
// the object itself, listeners and parents.
func (w *gateWorld) affected(kind, name string) map[string]string {
	out := map[string]string{}
	note := func(at string, list []report.Condition) {
		if c := report.Find(list, "penstock.dev/AccessPolicyAffected"); c != nil && c.Status == report.True {
			out[at] = c.Message
		}
	}
	rep := w.report(kind, name)
	note("", rep.Conditions)
	for _, l := range rep.Listeners {
		note(l.Name, l.Conditions)
	}
	for _, p := range rep.Parents {
		note("parent "+p.Ref.Name, p.Conditions)
	}
	return out
}

func (w *gateWorld) report(kind, name string) report.Report {
	w.t.Helper()
	for ref, rep := range w.reports {
		if ref.Kind == kind && ref.Name == name {
			return rep
		}
	}
	w.t.Fatalf("no report on %s %s", kind, name)
	return report.Report{}
}

// Only objects that a policy targets have the condition (GEP-713).
func TestAccessPolicy_TargetsAreReportedAsAffected(t *testing.T) {
	w := newGateWorld(t)
	loser := gate("z", "Gateway gw")
	lost := gate("lost", "Gateway nowhere", "HTTPRoute named nowhere")
	for _, p := range []*v1alpha1.AccessPolicy{gate("a", "Gateway gw"), loser, gate("b", "Gateway other alt"),
		gate("c", "HTTPRoute named b"), gate("d", "HTTPRoute named"), gate("e", "InferencePool zebra"),
		gate("f", "InferencePool first"), lost} {
		w.apply(store.AccessPolicies.Put(p))
	}
	check := func(kind, name string, want map[string]string) {
		t.Helper()
		got := w.affected(kind, name)
		for at, text := range want {
			if got[at] != text {
				t.Errorf("%s %s at %q: %q, want %q", kind, name, at, got[at], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s %s: %v, want %v", kind, name, got, want)
		}
	}
	const gates = "AccessPolicy default/"
	check("Gateway", "gw", map[string]string{"": gates + "a gates it"})
	check("Gateway", "other", map[string]string{"alt": gates + "b gates it"})
	check("HTTPRoute", "named", map[string]string{
		"parent other": gates + "d gates it; " + gates + "c gates rule b"})
	check("HTTPRoute", "r", nil)
	check("InferencePool", "first", map[string]string{"parent gw": gates + "f gates it"})
	check("InferencePool", "zebra", nil) // no route names it, so its status has no parent
	check("InferencePool", "alpha", nil)

	w.apply(store.AccessPolicies.Delete("default/a"), store.AccessPolicies.Delete("default/c"),
		store.AccessPolicies.Delete("default/f"), store.AccessPolicies.Delete("default/b"))
	check("Gateway", "gw", map[string]string{"": gates + "z gates it"})
	check("Gateway", "other", nil)
	check("HTTPRoute", "named", map[string]string{"parent other": gates + "d gates it"})
	check("InferencePool", "first", nil)
}

// In EndpointMode, other clusters reach an exported pool's servers directly, so no policy of this
// cluster applies to their requests.
func TestAccessPolicy_WarnsOfGatedPoolsThatAreExported(t *testing.T) {
	w := newGateWorld(t)
	export := func(mode string) store.Op {
		old, _ := store.InferencePools.Get(w.store.View(), "default/zebra")
		pool := old.DeepCopy()
		pool.Annotations = map[string]string{"inference.networking.x-k8s.io/export": "ClusterSet",
			"inference.networking.x-k8s.io/export-mode": mode}
		return store.InferencePools.Put(pool)
	}
	check := func(step, want string) {
		t.Helper()
		got := ""
		for _, f := range w.report("InferencePool", "zebra").Findings {
			if strings.Contains(f.Problem, "other clusters reach the pool's servers directly") {
				got += f.Problem
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", step, got, want)
		}
	}
	w.apply(export("EndpointMode"))
	check("without policies", "")
	w.apply(store.AccessPolicies.Put(gate("p", "HTTPRoute r")))
	check("a gated route that spills to it", "AccessPolicy default/p gates HTTPRoute default/r of Gateway default/gw")
	w.apply(export("ParentMode"))
	check("ParentMode", "")
	w.apply(export(""), store.AccessPolicies.Put(gate("z", "InferencePool zebra")))
	check("its own policy", "AccessPolicy default/z gates it in this cluster alone")
	w.apply(store.AccessPolicies.Delete("default/z"), store.AccessPolicies.Delete("default/p"))
	check("without policies again", "")
}

func (w *gateWorld) exposures(kind, name string) (found []string) {
	for _, f := range w.report(kind, name).Findings {
		if strings.Contains(f.Problem, "clients without a key reach its servers") {
			if f.Severity != report.Warning || f.Fix == "" {
				w.t.Errorf("got %+v, want a Warning with a fix", f)
			}
			found = append(found, f.Problem)
		}
	}
	return found
}

func TestAccessPolicy_WarnsOfPoolsThatAnOpenRouteReaches(t *testing.T) {
	w := newGateWorld(t)
	open := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "open"}}
	open.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "other"}}
	backend := gatewayv1.HTTPBackendRef{}
	backend.Group, backend.Kind, backend.Name = ptr[gatewayv1.Group]("inference.networking.k8s.io"),
		ptr[gatewayv1.Kind]("InferencePool"), "zebra"
	open.Spec.Rules = []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{backend}}}
	w.apply(store.HTTPRoutes.Put(open))
	check := func(step string, want bool) {
		t.Helper()
		for _, o := range [][2]string{{"HTTPRoute", "r"}, {"HTTPRoute", "open"}, {"InferencePool", "zebra"}} {
			if got := w.exposures(o[0], o[1]); len(got) > 0 != want || len(got) > 1 {
				t.Errorf("%s: %s %s: %q, want some: %t", step, o[0], o[1], got, want)
			}
		}
		for _, o := range [][2]string{{"InferencePool", "first"}, {"InferencePool", "alpha"}, {"HTTPRoute", "named"}} {
			if got := w.exposures(o[0], o[1]); len(got) > 0 {
				t.Errorf("%s: %s %s: got %q, want none", step, o[0], o[1], got)
			}
		}
	}
	check("without policies", false)
	w.apply(store.AccessPolicies.Put(gate("p", "HTTPRoute r")))
	check("a pool that the gated route spills to", true)
	want := "no AccessPolicy gates it at Gateway default/other, and it reaches InferencePool default/zebra, which " +
		"HTTPRoute default/r of Gateway default/gw reaches behind AccessPolicy default/p"
	if got := w.exposures("HTTPRoute", "open"); !strings.HasPrefix(strings.Join(got, ""), want) {
		t.Errorf("%q, want %q", got, want)
	}
	w.apply(store.AccessPolicies.Put(gate("q", "Gateway other")))
	check("both are gated", false)
	w.apply(store.AccessPolicies.Delete("default/q"))
	check("one is open again", true)
	w.apply(store.AccessPolicies.Put(gate("q", "InferencePool zebra")))
	check("the pool is gated", false)
	w.apply(store.AccessPolicies.Delete("default/q"), store.AccessPolicies.Delete("default/p"))
	check("none is gated", false)
	excepts := gate("p", "Gateway other", "Gateway gw")
	excepts.Spec.Except = []v1alpha1.AccessException{{Name: "open"}}
	w.apply(store.AccessPolicies.Put(excepts))
	check("a Gateway's policy opens one", true)
	w.apply(store.HTTPRoutes.Delete("default/open"))
	if got := slices.Concat(w.exposures("HTTPRoute", "r"), w.exposures("InferencePool", "zebra")); len(got) > 0 {
		t.Errorf("without the open route: got %q, want none", got)
	}
}

func TestAccessPolicy_ClosedOneNamesWhatItCloses(t *testing.T) {
	w := newGateWorld(t)
	p := closed("p", "HTTPRoute", "Gateway gw http", "InferencePool none")
	w.apply(store.AccessPolicies.Put(p))
	rep := w.report("AccessPolicy", "p")
	const want = "it lets nothing in, because it is invalid and has no valid version before: closed are all " +
		"HTTPRoutes of namespace default, " +
		"Gateway gw (section http), InferencePool none, except for targets of a valid AccessPolicy"
	if len(rep.Findings) != 1 || rep.Findings[0].Problem != want || rep.Findings[0].Severity != report.Error {
		t.Errorf("findings: got %+v, want one Error: %s", rep.Findings, want)
	}
	if c := report.Find(rep.Conditions, "Accepted"); c == nil || c.Status != report.False || c.Message != want {
		t.Errorf("conditions: got %+v, want Accepted False: %s", rep.Conditions, want)
	}
}

// A closed policy, which replaces an invalid one, targets all objects of a kind if the invalid
// policy's targets are unreadable.
func TestAccessPolicy_ClosureOfAKindIsReportedAtItsTargets(t *testing.T) {
	w := newGateWorld(t)
	w.apply(store.AccessPolicies.Put(closed("p")))
	affected := func(kind, name string) bool {
		for _, message := range w.affected(kind, name) {
			if strings.Contains(message, "AccessPolicy default/p") {
				return true
			}
		}
		return false
	}
	for kind, name := range map[string]string{"Gateway": "gw", "HTTPRoute": "r", "InferencePool": "first"} {
		if !affected(kind, name) {
			t.Errorf("%s %s: got %+v, want a message that names AccessPolicy default/p",
				kind, name, w.report(kind, name))
		}
	}
	w.apply(store.AccessPolicies.Delete("default/p"))
	for kind, name := range map[string]string{"Gateway": "gw", "HTTPRoute": "r", "InferencePool": "first"} {
		if affected(kind, name) {
			t.Errorf("%s %s after the policy is removed: got %+v, want no message that names it",
				kind, name, w.report(kind, name))
		}
	}
}
