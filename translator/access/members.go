package access

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

const fieldMembers = "spec.members"

// Admitted returns which of the members may send requests for a pool to the peer listener of a
// Gateway ("namespace/name"). It also returns the policies with spec.members that decide this. All
// of them must permit a member.
func Admitted(r store.Reader, gateway string, pool report.Ref, members []string) (admitted []string,
	policies []report.Ref) {
	admitted = members
	for _, target := range []report.Ref{store.RefOf(store.Gateways, gateway), pool} {
		p := winner(r, target, "")
		if p == nil || !gatesMembers(p) {
			continue
		}
		policies = append(policies, store.AccessPolicies.Ref(p))
		admitted = slices.DeleteFunc(slices.Clone(admitted),
			func(m string) bool { return !slices.Contains(p.Spec.Members, m) })
	}
	return admitted, policies
}

// gatesMembers reports whether a policy restricts members. An empty list permits no member. A
// policy without a list does not restrict them.
func gatesMembers(p *v1alpha1.AccessPolicy) bool {
	return p.Spec.Members != nil || len(memberNull(p)) > 0
}

func memberNull(p *v1alpha1.AccessPolicy) []string {
	if slices.Contains(p.Spec.Nulls, "members") {
		return []string{fieldMembers}
	}
	return nil
}

// memberFindings reports members that the set does not have, and targets without peer listeners.
func memberFindings(r store.Reader, p *v1alpha1.AccessPolicy) (findings []report.Finding) {
	if !gatesMembers(p) {
		return nil
	}
	add := func(severity report.Severity, field, problem, fix string) {
		findings = append(findings, report.Finding{Severity: severity, Owner: store.AccessPolicies.Ref(p), Field: field,
			Problem: problem, Fix: fix})
	}
	if len(memberNull(p)) > 0 {
		add(report.Error, fieldMembers, "it is null: peer listeners let in no member's requests", nullFix)
	}
	for i, t := range p.Spec.TargetRefs {
		if t.SectionName != "" || t.Kind != store.Gateways.Kind() && t.Kind != store.InferencePools.Kind() {
			add(report.Error, fmt.Sprintf("spec.targetRefs[%d]", i), "spec.members has no effect on it: requests of "+
				"members reach pools, and pass neither routes nor listeners",
				"target the InferencePool, or the Gateway without sectionName")
		}
	}
	m, ok := store.Memberships.Get(r, store.OwnMembership)
	if !ok || m.Names == nil { // the set is unknown yet, or a hub may add clusters
		return findings
	}
	for i, name := range p.Spec.Members {
		if !slices.Contains(m.Names, name) {
			add(report.Warning, fmt.Sprintf("%s[%d]", fieldMembers, i), fmt.Sprintf("ClusterSet %s has no member %s%s",
				m.Set, name, gatewayapi.DidYouMean(name, m.Names)), "name a member of spec.members there, or remove it")
		}
	}
	return findings
}
