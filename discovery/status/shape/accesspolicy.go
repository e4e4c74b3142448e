package shape

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// AccessPolicy is the shape of an AccessPolicy's status: an ancestor for each Gateway (GEP-713),
// and the conditions of the policy as a whole, which kstatus reads.
func AccessPolicy() *Shape {
	status := func(p *v1alpha1.AccessPolicy) *v1alpha1.AccessPolicyStatus { return &p.Status }
	ancestors := Ancestors(func(p *v1alpha1.AccessPolicy) *gatewayv1.PolicyStatus {
		return &gatewayv1.PolicyStatus{Ancestors: p.Status.Ancestors}
	})
	whole := Own(status, func(s *v1alpha1.AccessPolicyStatus) (*[]metav1.Condition, *int64) {
		return &s.Conditions, &s.ObservedGeneration
	})
	return &Shape{
		Take: func(obj store.Object) any { return take(status(obj.(*v1alpha1.AccessPolicy))) },
		Make: func(in Input) any {
			old := in.Old.(*v1alpha1.AccessPolicyStatus)
			out := *old
			in.Old = &gatewayv1.PolicyStatus{Ancestors: old.Ancestors}
			out.Ancestors = ancestors.Make(in).(*gatewayv1.PolicyStatus).Ancestors
			if old.ObservedGeneration == 0 { // the installed CRD has only status.ancestors
				return &out
			}
			if in.Object.(*v1alpha1.AccessPolicy).Spec.Closed == 0 { // a closed policy's targets may be unreadable
				out.Targets = in.Gated
			}
			in.Old, in.Report.Conditions = &out, worst(in.Report)
			return whole.Make(in)
		},
	}
}

// worst returns the conditions that describe a policy as a whole: the conditions of the first
// parent that has a False condition or, without such a parent, of the first parent. Without
// parents, they are the conditions of the report. worst omits Programmed=True, because a report
// does not include the proxies' acknowledgements.
func worst(r report.Report) []report.Condition {
	list := r.Conditions
	if len(r.Parents) > 0 {
		isFalse := func(c report.Condition) bool { return c.Status == report.False }
		i := slices.IndexFunc(r.Parents, func(p report.Parent) bool {
			return slices.ContainsFunc(p.Conditions, isFalse)
		})
		list = r.Parents[max(i, 0)].Conditions
	}
	return slices.DeleteFunc(slices.Clone(list), func(c report.Condition) bool {
		return c.Type == report.Programmed && c.Status == report.True
	})
}
