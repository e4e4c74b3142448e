package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
)

// reasonInvalid is the reason for a policy that permits no key or no token because of a mistake.
const reasonInvalid = gatewayv1.PolicyReasonInvalid

// Targets looks up the Gateways of a policy's targets.
type Targets interface {
	// Gateways lists, sorted, the Gateways that send requests to a target.
	Gateways(r store.Reader, target report.Ref) []report.Ref
}

// Report reports on an AccessPolicy for each Gateway of its targets (its ancestors in GEP-713).
func Report(r store.Reader, key string, targets Targets) (report.Report, bool) {
	p, ok := store.AccessPolicies.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	out := report.Report{Owner: store.AccessPolicies.Ref(p)}
	wrong := func(field, problem, fix string) {
		out.Findings = append(out.Findings, report.Finding{
			Severity: report.Error, Owner: out.Owner, Field: field, Problem: problem, Fix: fix,
		})
	}
	accepted := report.Condition{Type: string(gatewayv1.PolicyConditionAccepted), Status: report.True,
		Reason: string(gatewayv1.PolicyReasonAccepted)}
	var lost []report.Condition
	var gateways []report.Ref
	for i, t := range p.Spec.TargetRefs {
		target := targetRef(p, t)
		gateways = append(gateways, targets.Gateways(r, target)...)
		reason, problem, fix := targetProblem(r, p, t, target)
		if reason == "" || p.Spec.Closed != 0 { // a closed policy may target objects that do not exist
			continue
		}
		lost = append(lost, report.Condition{Type: accepted.Type, Status: report.False, Reason: string(reason),
			Message: problem})
		wrong(fmt.Sprintf("spec.targetRefs[%d]", i), problem, fix)
	}
	if len(lost) > 0 && len(lost) == len(p.Spec.TargetRefs) {
		accepted = lost[0]
	}
	if names := former(r, p); len(names) > 0 {
		for _, t := range p.Spec.Former {
			gateways = append(gateways, targets.Gateways(r, formerRef(t))...)
		}
		problem := "its former targets stay gated until all targets exist: " + strings.Join(names, ", ")
		accepted.Message = strings.TrimPrefix(accepted.Message+"; "+problem, "; ")
		wrong("spec.targetRefs", problem, "correct the target that does not exist, or delete the policy to open the "+
			"former targets")
	}
	if p.Spec.Closed != 0 {
		f := closing(p)
		accepted.Status, accepted.Reason, accepted.Message = report.False, string(reasonInvalid), f.Problem
		out.Findings = append(out.Findings, f)
	}
	if _, _, err := Selector(p); err != nil {
		problem := err.Error() + ": the targets are closed to all"
		field, fix := "spec.apiKeys.selector", "write matchLabels or matchExpressions as in a Deployment's selector"
		if fields := nulls(p, "apiKeys"); len(fields) > 0 {
			field, fix = fields[0], nullFix
		}
		accepted.Status, accepted.Reason = report.False, string(reasonInvalid)
		accepted.Message = field + ": " + problem
		wrong(field, problem, fix)
	}
	if _, problems := IssuerOf(r, p); len(problems) > 0 {
		accepted.Status, accepted.Reason = report.False, string(reasonInvalid)
		accepted.Message = problems[0].Field + ": " + problems[0].Problem
		out.Findings = append(out.Findings, problems...)
	}
	if p.Spec.JWT != nil && p.Spec.JWT.Claims.Models != "" && !p.Spec.ByModel {
		out.Findings = append(out.Findings, report.Finding{Severity: report.Warning, Owner: out.Owner,
			Field: "spec.jwt.claims.models", Problem: "the policy has no byModel: tokens are denied on its routes, " +
				"unless another policy there has it", Fix: "write byModel: true, or remove claims.models"})
	}
	out.Findings = append(append(out.Findings, memberFindings(r, p)...), exceptFindings(r, p)...)
	out.Conditions = []report.Condition{accepted} // needed if the policy has no Gateways
	at := out.Conditions
	if accepted.Status == report.True { // on Kubernetes, the condition also waits until Envoys acknowledge the policy
		at = append(slices.Clip(at), report.Condition{Type: report.Programmed, Status: report.True,
			Reason: "Programmed"})
	}
	slices.SortFunc(gateways, report.Ref.Compare)
	for _, gw := range slices.Compact(gateways) {
		out.Parents = append(out.Parents, report.Parent{
			Ref:        report.ParentRef{Group: gw.Group, Kind: gw.Kind, Namespace: gw.Namespace, Name: gw.Name},
			Conditions: at,
		})
	}
	return out, true
}

// exceptFindings reports exceptions that name no route.
func exceptFindings(r store.Reader, p *v1alpha1.AccessPolicy) (findings []report.Finding) {
	owner := store.AccessPolicies.Ref(p)
	for i, e := range p.Spec.Except {
		route := report.Ref{Group: gatewayv1.GroupName, Kind: cmp.Or(e.Kind, store.HTTPRoutes.Kind()),
			Namespace: cmp.Or(e.Namespace, p.Namespace), Name: e.Name}
		if _, exists := store.Sections(r, route); exists {
			continue
		}
		problem := "it opens nothing: " + gatewayapi.Missing(r, owner, route, fmt.Sprintf("%s does not exist%s", route,
			gatewayapi.DidYouMean(route.Key(), routesBelow(r, p, route.Kind))))
		findings = append(findings, report.Finding{Severity: report.Warning, Owner: owner,
			Field: fmt.Sprintf("spec.except[%d]", i), Problem: problem,
			Fix: "name an HTTPRoute or GRPCRoute, with its namespace if it is in another one, or remove the exception"})
	}
	return findings
}

// routesBelow returns the routes ("namespace/name") of a policy's Gateways. It omits a Gateway with
// more than 64 routes, because a change of any of them recomputes the report.
func routesBelow(r store.Reader, p *v1alpha1.AccessPolicy, kind string) (ids []string) {
	routes := store.Kind(store.HTTPRoutes)
	if kind == store.GRPCRoutes.Kind() {
		routes = store.GRPCRoutes
	}
	for _, t := range p.Spec.TargetRefs {
		ids = append(ids, store.IDs(r, routes, store.ByParent, targetRef(p, t).Key(), 64)...)
	}
	return ids
}

func targetRef(p *v1alpha1.AccessPolicy, t v1alpha1.AccessTarget) report.Ref {
	group := gatewayv1.GroupName
	if t.Kind == store.InferencePools.Kind() {
		group = store.InferencePools.Group()
	}
	return report.Ref{Group: cmp.Or(t.Group, group), Kind: t.Kind, Namespace: p.Namespace, Name: t.Name}
}

func targetProblem(r store.Reader, p *v1alpha1.AccessPolicy, t v1alpha1.AccessTarget, target report.Ref) (
	reason gatewayv1.PolicyConditionReason, problem, fix string) {
	sections, exists := store.Sections(r, target)
	switch {
	case !exists:
		return gatewayv1.PolicyReasonTargetNotFound, gatewayapi.NotExist(r, store.AccessPolicies.Ref(p), target),
			"name an object of the policy's own namespace"
	case t.SectionName != "" && !slices.Contains(sections, t.SectionName):
		return gatewayv1.PolicyReasonTargetNotFound, fmt.Sprintf("%s has no section %s%s", target, t.SectionName,
			gatewayapi.DidYouMean(t.SectionName, sections)), "name a listener of the Gateway, or a rule of the route"
	}
	if w := winner(r, target, t.SectionName); w != nil && store.ID(w) != store.ID(p) {
		return gatewayv1.PolicyReasonConflicted, fmt.Sprintf("AccessPolicy %s has the same target and is older, or "+
			"first by name: this policy is not in force there", store.ID(w)), "put both into one AccessPolicy"
	}
	return "", "", ""
}
