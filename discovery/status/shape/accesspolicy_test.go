package shape

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// A policy's own conditions are the conditions of an ancestor with a False condition, because
// kstatus reads only the policy's own conditions.
func TestAccessPolicy_ConditionsAreTheWorstAncestors(t *testing.T) {
	parent := func(name, status string) report.Parent {
		return report.Parent{Ref: report.ParentRef{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: "team",
			Name: name}, Conditions: []report.Condition{{Type: "Accepted", Status: status, Reason: "R"}}}
	}
	own := []report.Condition{{Type: "Accepted", Status: report.True, Reason: "R"}}
	for _, c := range []struct {
		name      string
		rep       report.Report
		ancestors int
		stalled   bool
	}{
		{"without Gateways", report.Report{Conditions: own}, 0, false},
		{"at two Gateways", report.Report{Parents: []report.Parent{parent("a", report.True),
			parent("b", report.True)}}, 2, false},
		{"broken at one", report.Report{Parents: []report.Parent{parent("a", report.True),
			parent("b", report.False)}}, 2, true},
	} {
		in := input(&v1alpha1.AccessPolicyStatus{ObservedGeneration: -1}, c.rep)
		in.Object = &v1alpha1.AccessPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"}}
		out := AccessPolicy().Make(in).(*v1alpha1.AccessPolicyStatus)
		stalled := false
		for _, condition := range out.Conditions {
			stalled = stalled || condition.Type == "Stalled" && condition.Status == "True"
		}
		if len(out.Ancestors) != c.ancestors || stalled != c.stalled || out.ObservedGeneration != 3 ||
			len(out.Conditions) == 0 {
			t.Errorf("%s: got %+v, want %d ancestors, stalled: %t, generation 3", c.name, out, c.ancestors, c.stalled)
		}
		in.Old = &v1alpha1.AccessPolicyStatus{} // the installed CRD lacks observedGeneration
		out = AccessPolicy().Make(in).(*v1alpha1.AccessPolicyStatus)
		if len(out.Ancestors) != c.ancestors || len(out.Conditions) > 0 || out.ObservedGeneration != 0 {
			t.Errorf("%s, older CRD: got %+v, want %d ancestors, and no conditions or generation",
				c.name, out, c.ancestors)
		}
	}
}
