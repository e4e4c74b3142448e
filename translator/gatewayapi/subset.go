package gatewayapi

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// extension reads a PoolPolicy with a subset. If the policy is unresolved, requests get 500
// (HTTPRouteFilter).
func (b *ruleBuilder) extension(f *filters, spec *gatewayv1.LocalObjectReference, field string, backend bool) {
	policies := store.PoolPolicies
	ref := report.Ref{Group: string(spec.Group), Kind: string(spec.Kind), Namespace: b.out.Route.Namespace,
		Name: string(spec.Name)}
	unresolved := func(reason gatewayv1.RouteConditionReason, format string, args ...any) {
		f.fails = true
		c := falseCondition(gatewayv1.RouteConditionResolvedRefs, reason, fmt.Sprintf(format, args...))
		b.unresolved = append(b.unresolved, c)
		b.out.Findings = append(b.out.Findings, finding(b.out.Route, field, c.Message, ""))
	}
	switch {
	case ref.Group != policies.Group() || ref.Kind != policies.Kind():
		b.unsupported(field,
			"filter ExtensionRef to a %s (%q) is not supported: a backendRef takes a PoolPolicy (%s) with a subset",
			ref.Kind, ref.Group, policies.Group())
		return
	case !backend:
		b.unsupported(field, "a PoolPolicy is a filter of a backendRef, not of a rule: write it there")
		return
	case f.subset != nil:
		b.unsupported(field, "a backendRef takes one PoolPolicy, and has two: put both subsets into one")
		return
	}
	policy, ok := policies.Get(b.r, ref.Key())
	switch {
	case !ok:
		unresolved(gatewayv1.RouteReasonBackendNotFound, "%s", NotExist(b.r, b.out.Route, ref))
	case policy.Spec.Subset == nil:
		unresolved(gatewayv1.RouteReasonUnsupportedValue, "%s has no subset: write spec.subset, a label selector", ref)
	default:
		f.subset = policy
	}
}

func (b *ruleBuilder) restrict(res *Resolution, ref report.Ref, f *filters, field string) {
	switch {
	case f.subset == nil || res.Reason != "":
	case ref.Kind != store.InferencePools.Kind():
		b.unsupported(field,
			"a PoolPolicy's subset selects endpoints of an InferencePool by their labels, and %s is no "+
				"InferencePool: remove the filter", ref)
	default:
		*res = b.backends.Restrict(b.r, ref, f.subset)
	}
}
