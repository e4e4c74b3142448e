package access

import (
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// closing returns the finding about a policy that denies all requests (AccessPolicySpec.Closed).
func closing(p *v1alpha1.AccessPolicy) report.Finding {
	var names []string
	for _, t := range p.Spec.TargetRefs {
		switch {
		case t.Name == "":
			names = append(names, "all "+t.Kind+"s of namespace "+p.Namespace)
		case t.SectionName != "":
			names = append(names, t.Kind+" "+t.Name+" (section "+t.SectionName+")")
		default:
			names = append(names, t.Kind+" "+t.Name)
		}
	}
	return report.Finding{Severity: report.Error, Owner: store.AccessPolicies.Ref(p),
		Problem: "it lets nothing in, because " + p.Spec.Closed.String() + ": closed are " + strings.Join(names, ", ") +
			", except for targets of a valid AccessPolicy",
		Fix: "correct or remove it"}
}
