package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// PolicyTargets looks up the targets of policies.
type PolicyTargets interface {
	Pool(r store.Reader, key string) (*model.Pool, bool)
	Import(r store.Reader, key string) (*model.Import, bool)
	Attached(r store.Reader, id model.ClusterID) []RouteGateways
}

// RouteGateways is a route with its Gateways.
type RouteGateways struct {
	Route    report.Ref
	Gateways []report.Ref
}

// PolicyReport reports on a BackendTLSPolicy for each Gateway that sends requests to its targets
// (GEP-713).
func PolicyReport(r store.Reader, key string, targets PolicyTargets) (report.Report, bool) {
	p, ok := store.BackendTLSPolicies.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	ref := store.BackendTLSPolicies.Ref(p)
	d := decidePolicy(r, p)
	var lost, found []report.Condition
	for i, t := range p.Spec.TargetRefs {
		if sectionOf(t) == "" && string(t.Kind) == store.InferencePoolImports.Kind() {
			field := fmt.Sprintf("spec.targetRefs[%d].name", i)
			if f, several := Ambiguous(r, ref, field, p.Namespace, string(t.Name)); several {
				d.findings = append(d.findings, f)
			}
		}
		target, section := unaliased(r, targetOf(p, t), sectionOf(t))
		c := targeted(r, p, target, section, sections(r, target, targets))
		if c.Status == report.True && target.Kind == store.InferencePools.Kind() {
			d.findings = append(d.findings,
				report.Finding{Severity: report.Info, Owner: ref, Field: fmt.Sprintf("spec.targetRefs[%d]", i),
					Problem: fmt.Sprintf(
						"requests to %s go over TLS; Penstock's own picker still reads its metrics without", target)})
		}
		if c.Status == report.True {
			found = append(found, c)
			continue
		}
		lost = append(lost, c)
		d.findings = append(d.findings, finding(ref, fmt.Sprintf("spec.targetRefs[%d]", i), c.Message, ""))
	}
	accepted := cmp.Or(d.accepted, trueCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonAccepted))
	if len(found) == 0 && len(lost) > 0 {
		accepted = lost[0]
	}
	resolved := cmp.Or(d.resolved, trueCondition(gatewayv1.BackendTLSPolicyConditionResolvedRefs,
		gatewayv1.BackendTLSPolicyReasonResolvedRefs))
	out := report.Report{Owner: ref, Findings: d.findings}
	for _, s := range policyStreams(r, p, targets) {
		out.Findings = append(out.Findings, report.Finding{Severity: report.Info, Owner: ref, Field: "spec.targetRefs",
			Problem: fmt.Sprintf(
				"connections of %s are TLS between client and backend already: the policy does not touch them", s)})
	}
	for _, gw := range policyGateways(r, p, targets) {
		out.Parents = append(out.Parents, report.Parent{
			Ref:        report.ParentRef{Group: gw.Group, Kind: gw.Kind, Namespace: gw.Namespace, Name: gw.Name},
			Conditions: []report.Condition{accepted, resolved},
		})
	}
	return out, true
}

func targeted(r store.Reader, p *gatewayv1.BackendTLSPolicy, target report.Ref, section string,
	sections []string) report.Condition {
	missing := func(format string, args ...any) report.Condition {
		return falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonTargetNotFound,
			fmt.Sprintf(format, args...))
	}
	switch {
	case !policyTargets(target):
		return missing(
			"targets of kind %s (%q) are not supported: use a Service, a ServiceImport, an InferencePool or an "+
				"InferencePoolImport", target.Kind, target.Group)
	case sections == nil:
		return missing("%s", NotExist(r, store.BackendTLSPolicies.Ref(p), target))
	case section != "" && !slices.Contains(sections, section):
		return missing(
			"%s has no section %s%s: a Service or ServiceImport has the names of its ports, an InferencePoolImport "+
				"its exporting clusters, and CLUSTER.picker for the picker of one", target, section,
			DidYouMean(section, sections))
	}
	if w := winner(r, target, section); store.ID(w) != store.ID(p) {
		return falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonConflicted,
			fmt.Sprintf("BackendTLSPolicy %s is about the same target and is older, or first by name", store.ID(w)))
	}
	return trueCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonAccepted)
}

func policyTargets(t report.Ref) bool {
	if t.Kind == store.InferencePools.Kind() {
		return t.Group == store.InferencePools.Group()
	}
	return isService(t) || isImport(t)
}

func sections(r store.Reader, target report.Ref, targets PolicyTargets) []string {
	out := []string{}
	switch target.Kind {
	case store.Services.Kind(), store.ServiceImports.Kind():
		svc, ok := services.Find(r, target)
		if !ok {
			return nil
		}
		for _, p := range svc.Spec.Ports {
			out = append(out, p.Name)
		}
	case store.InferencePools.Kind():
		if _, ok := targets.Pool(r, target.Key()); !ok {
			return nil
		}
	case store.InferencePoolImports.Kind():
		imp, ok := targets.Import(r, target.Key())
		if !ok {
			return nil
		}
		for _, m := range imp.Members {
			if m.Local {
				continue
			}
			out = append(out, m.Name)
			if m.Cluster.Kind == model.ImportKind {
				out = append(out, pickerSection(m.Name))
			}
		}
	}
	return out
}

func policyGateways(r store.Reader, p *gatewayv1.BackendTLSPolicy, targets PolicyTargets) (out []report.Ref) {
	for _, t := range p.Spec.TargetRefs {
		target, section := unaliased(r, targetOf(p, t), sectionOf(t))
		for _, cluster := range policyClusters(r, target, section, targets) {
			for _, route := range targets.Attached(r, cluster) {
				out = append(out, route.Gateways...)
			}
		}
	}
	return sorted(out, report.Ref.Compare)
}

func policyStreams(r store.Reader, p *gatewayv1.BackendTLSPolicy, targets PolicyTargets) (out []report.Ref) {
	for _, target := range p.Spec.TargetRefs {
		svc, ok := services.Find(r, targetOf(p, target))
		if !ok {
			continue
		}
		for _, port := range svc.Spec.Ports {
			for _, route := range targets.Attached(r, portCluster(svc.Ref, model.PassthroughKind, port.Port)) {
				out = append(out, route.Route)
			}
		}
	}
	return sorted(out, report.Ref.Compare)
}

// The section "" selects all exporting clusters.
func policyClusters(r store.Reader, target report.Ref, section string, targets PolicyTargets) (out []model.ClusterID) {
	switch namespace, name := target.Namespace, target.Name; target.Kind {
	case store.Services.Kind(), store.ServiceImports.Kind():
		if svc, ok := services.Find(r, target); ok {
			for _, p := range svc.Spec.Ports {
				for _, kind := range []model.ClusterKind{model.ServiceKind, model.GRPCKind, model.TCPKind} {
					out = append(out, portCluster(target, kind, p.Port))
				}
				if !services.IsServiceImport(target) {
					out = append(out, model.PickerCluster(namespace, name, p.Port))
				}
			}
		}
	case store.InferencePools.Kind():
		pool := model.PoolCluster(namespace, name)
		out = append(out, pool, pool.As(model.LastVariant))
	case store.InferencePoolImports.Kind():
		if imp, ok := targets.Import(r, target.Key()); ok {
			for _, m := range imp.Members {
				if m.Local {
					continue
				}
				if section == "" || section == m.Name || section == pickerSection(m.Name) {
					out = append(out, m.Cluster, m.Cluster.As(model.LastVariant))
				}
			}
		}
	}
	return out
}
