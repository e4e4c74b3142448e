package deployment

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// FieldAccess is the field of a ModelDeployment that restricts access to its routes.
const FieldAccess = "spec.access"

// access returns a finding for each null in spec.access. If a null were ignored, the policy would
// allow more requests.
func access(d *v1alpha1.ModelDeployment) (found []report.Finding) {
	if d.Spec.Access == nil {
		return nil
	}
	for _, field := range d.Spec.Access.Nulls {
		if field != "" {
			field = "." + field
		}
		found = append(found, mistake(FieldAccess+field, "is null: the deployment lets no request in",
			"write its value, or remove the field"))
	}
	return found
}

// Gated returns a copy of p with spec.access of a newer, invalid version of the deployment. The
// mistake in that version must not leave the model open until it is corrected. Gated returns p
// itself if p has spec.access, or the newer version has none.
func (p *Plan) Gated(newer *v1alpha1.ModelDeployment) *Plan {
	if p.Deployment.Spec.Access != nil || newer.Spec.Access == nil {
		return p
	}
	gated, d := *p, *p.Deployment
	d.Spec.Access = newer.Spec.Access
	gated.Deployment = &d
	return &gated
}

// policy returns the AccessPolicy of the deployment. The policy also targets the InferencePool, so
// it applies to users' own routes to the pool.
func (p *Plan) policy() *v1alpha1.AccessPolicy {
	a := p.Deployment.Spec.Access
	out := &v1alpha1.AccessPolicy{ObjectMeta: p.meta()}
	out.Spec = v1alpha1.AccessPolicySpec{APIKeys: a.APIKeys, JWT: a.JWT, ByModel: a.ByModel, Usage: a.Usage,
		Revoke: a.Revoke, Nulls: a.Nulls}
	if len(p.Deployment.Spec.GatewayRefs) > 0 {
		out.Spec.TargetRefs = append(out.Spec.TargetRefs,
			v1alpha1.AccessTarget{Kind: "HTTPRoute", Name: p.Deployment.Name})
	}
	out.Spec.TargetRefs = append(out.Spec.TargetRefs,
		v1alpha1.AccessTarget{Kind: "InferencePool", Name: p.Deployment.Name})
	return out
}
