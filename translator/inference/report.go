package inference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// ConditionServing is False while no server of an InferencePool serves. It is absent otherwise.
const ConditionServing = "penstock.dev/Serving"

// PoolReport reports on an InferencePool for each Gateway whose routes name it. spilledTo means
// that another pool spills to this pool.
func PoolReport(p *model.Pool, gateways []report.Ref, spilledTo bool, members []model.Member) report.Report {
	rep := report.Report{Owner: p.Ref, Findings: of(p.Ref, p.Findings)}
	for _, gw := range gateways {
		rep.Parents = append(rep.Parents, report.Parent{
			Ref: report.ParentRef{Group: gw.Group, Kind: gw.Kind, Namespace: gw.Namespace, Name: gw.Name},
			Conditions: []report.Condition{
				{Type: "Accepted", Status: report.True, Reason: "Accepted"},
				p.Resolved,
			},
		})
	}
	if len(gateways) == 0 && !spilledTo {
		rep.Findings = append(rep.Findings, infoOn(p.Ref, "", "no route that a Gateway accepted names this pool", ""))
	}
	if f, found := unknownEngine(p, members); found {
		rep.Findings = append(rep.Findings, f)
	}
	// A ModelDeployment has its own report about missing servers.
	if len(members) == 0 && p.Selector[v1alpha1.DeploymentLabel] != p.Ref.Name {
		const problem = "no ready Pod and no ModelServers of the namespace match, at an address that is allowed"
		rep.Findings = append(rep.Findings, warningOn(p.Ref, "spec.selector", problem,
			"label the model servers so that they match; a denied address has a finding of its own"))
		rep.Conditions = []report.Condition{
			{Type: ConditionServing, Status: report.False, Reason: "NoServer", Message: "spec.selector: " + problem},
		}
	}
	return rep
}

// ImportReport reports whether an InferencePoolImport is usable, for each Gateway whose routes name
// it. ports has the findings about the pickers' ports; spilledTo means that a pool spills to the
// import.
func ImportReport(imp *model.Import, ports []report.Finding, gateways []report.Ref, spilledTo bool) report.Report {
	rep := report.Report{Owner: imp.Ref, Findings: append(of(imp.Ref, imp.Findings), ports...)}
	rep.Conditions = []report.Condition{imp.Accepted, resolved("InvalidCluster", rep.Findings), imp.Ready}
	for _, gw := range gateways { // status.Board adds the conditions
		rep.Parents = append(rep.Parents, report.Parent{
			Ref: report.ParentRef{Group: gw.Group, Kind: gw.Kind, Namespace: gw.Namespace, Name: gw.Name},
		})
	}
	if len(gateways) == 0 && !spilledTo {
		rep.Findings = append(rep.Findings,
			infoOn(imp.Ref, "", "no route that a Gateway accepted names this import", ""))
	} else {
		rep.Findings = append(rep.Findings, Exposed(imp)...)
	}
	return rep
}

// PolicyReport reports whether a PoolPolicy is in force.
func PolicyReport(r store.Reader, tables Tables, key string) (report.Report, bool) {
	policy, ok := store.PoolPolicies.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	owner, target := store.PoolPolicies.Ref(policy), policy.Spec.TargetRef
	all, found := targetFindings(r, tables, policy)
	if !found && target.Kind != "InferencePoolImport" && elsewhere(r, policy.Namespace, target.Name) {
		return report.Report{}, false
	}
	rep := report.Report{Owner: owner, Findings: append(of(owner, all), ambiguous(r, policy)...)}
	if ns := target.Namespace; ns != "" && ns != policy.Namespace {
		rep.Findings = append(rep.Findings, warningOn(owner, "spec.targetRef.namespace",
			fmt.Sprintf("it has no effect: the policy is for %s %s/%s", kindOf(target).Kind(), policy.Namespace,
				target.Name), "remove it, and write the policy in namespace "+ns))
	}
	if f, invalid := subsetFinding(policy); invalid {
		rep.Findings = append(rep.Findings, f)
	}
	if !found {
		problem := noneOf(r, kindOf(target), policy.Namespace, target.Name)
		rep.Findings = append(rep.Findings,
			errorOn(owner, "spec.targetRef.name", problem, "name a pool of the policy's own namespace"))
		rep.Conditions = []report.Condition{unaccepted("TargetNotFound", problem)}
		return rep, true
	}
	accepted := policyAccepted(rep.Findings)
	rep.Conditions = []report.Condition{accepted}
	if accepted.Status == report.True {
		rep.Conditions = append(rep.Conditions, policyResolved(rep.Findings))
	}
	return rep, true
}

func targetFindings(r store.Reader, tables Tables, policy *v1alpha1.PoolPolicy) ([]report.Finding, bool) {
	target := policy.Spec.TargetRef
	if target.Kind == "InferencePoolImport" {
		imp, found := importNamed(r, policy.Namespace, target.Name,
			func(key string) (*model.Import, bool) { return tables.Import(r, key) })
		if !found {
			return nil, target.Name == ""
		}
		return imp.Findings, true
	}
	if target.Name == "" {
		return nil, true
	}
	p, found := tables.Pool(r, objectid.Join(policy.Namespace, target.Name))
	if !found {
		return nil, false
	}
	return p.Findings, true
}

func policyAccepted(findings []report.Finding) report.Condition {
	for _, f := range findings {
		if f.Field == "spec.targetRef" {
			return unaccepted("Conflicted", f.Problem)
		}
	}
	for _, f := range findings {
		if f.Field == fieldSubset && f.Severity == report.Error {
			return unaccepted("InvalidSubset", f.Field+": "+f.Problem+"; "+f.Fix)
		}
	}
	if c, invalid := pluginsCondition(findings); invalid {
		return c
	}
	return report.Condition{Type: "Accepted", Status: report.True, Reason: "Accepted"}
}

func unaccepted(reason, message string) report.Condition {
	return report.Condition{Type: "Accepted", Status: report.False, Reason: reason, Message: message}
}

func policyResolved(findings []report.Finding) report.Condition {
	reason := "InvalidSpillTarget"
	switch {
	case invalidConfigRef(findings):
		reason = "InvalidConfigRef"
	case slices.ContainsFunc(findings, invalidScorer):
		reason = "InvalidScorerRef"
	case slices.ContainsFunc(findings, invalidProcessor):
		reason = "InvalidProcessorRef"
	case invalidCredential(findings):
		reason = "InvalidCredentialRef"
	case slices.ContainsFunc(findings, func(f report.Finding) bool {
		return f.Field == fieldWithin && f.Severity == report.Error
	}):
		reason = "NoClusterWithin"
	}
	return resolved(reason, findings)
}

func ambiguous(r store.Reader, policy *v1alpha1.PoolPolicy) (out []report.Finding) {
	owner := store.PoolPolicies.Ref(policy)
	check := func(field string, ref v1alpha1.PoolRef) {
		to := store.RefOf(store.InferencePoolImports, cmp.Or(ref.Namespace, policy.Namespace)+"/"+ref.Name)
		if ref.Kind != to.Kind || !gatewayapi.Granted(r, owner, to) {
			return
		}
		if f, several := gatewayapi.Ambiguous(r, owner, field, to.Namespace, to.Name); several {
			out = append(out, f)
		}
	}
	check("spec.targetRef.name", v1alpha1.PoolRef{Kind: policy.Spec.TargetRef.Kind, Name: policy.Spec.TargetRef.Name})
	for i, ref := range policy.Spec.Spill {
		check(fmt.Sprintf("spec.spill[%d].name", i), ref)
	}
	return out
}

const mostErrors = 16

// resolved lists the errors in a condition, because Kubernetes does not show findings to users.
func resolved(reason string, findings []report.Finding) report.Condition {
	var errs []string
	for _, f := range findings {
		if text := f.Field + ": " + f.Problem + "; " + f.Fix; f.Severity == report.Error &&
			!slices.Contains(errs, text) {
			errs = append(errs, text)
		}
	}
	if len(errs) == 0 {
		return report.Condition{Type: "ResolvedRefs", Status: report.True, Reason: "ResolvedRefs"}
	}
	if more := len(errs) - mostErrors; more > 0 {
		errs = append(errs[:mostErrors], fmt.Sprintf("and %d more", more))
	}
	return report.Condition{Type: "ResolvedRefs", Status: report.False, Reason: reason,
		Message: strings.Join(errs, "\n")}
}

func kindOf(ref v1alpha1.PoolRef) store.Kind {
	if ref.Kind == store.InferencePoolImports.Kind() {
		return store.InferencePoolImports
	}
	return store.InferencePools
}

// ServersReport reports unresolved host names and disallowed addresses of ModelServers.
func ServersReport(r store.Reader, key string) (report.Report, bool) {
	ms, ok := store.ModelServers.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	rep := report.Report{Owner: store.ModelServers.Ref(ms)}
	const notFoundReason, notAllowedReason = "AddressNotFound", "AddressNotAllowed"
	reason, found := notFoundReason, 0
	var severity report.Severity
	for i, s := range ms.Spec.Servers {
		host := services.Mention(r, s.Address)
		f := report.Finding{Severity: report.Error, Owner: rep.Owner, Field: fmt.Sprintf("spec.servers[%d].address", i)}
		switch {
		case host.Outside != "":
			reason = notAllowedReason
			f.Problem, f.Fix = host.Outside, addresses.Fix(host.Outside)
		case host.Failed:
			f.Problem, f.Fix = host.Unresolved, "write a name that resolves where Penstock runs, or an IP address"
		case host.Unresolved != "":
			f.Severity, f.Problem = report.Info, host.Unresolved
			f.Fix = "label the server so that a pool selects it: only names that are used are resolved"
		default:
			continue
		}
		severity = cmp.Or(severity, f.Severity)
		if f.Severity == report.Error {
			severity = report.Error
		}
		if found++; found <= mostErrors {
			rep.Findings = append(rep.Findings, f)
		}
	}
	if more := found - mostErrors; more > 0 {
		rep.Findings = append(rep.Findings, report.Finding{
			Severity: severity, Owner: rep.Owner, Field: "spec.servers",
			Problem: fmt.Sprintf("%d more addresses have such a problem", more),
			Fix:     "see the other findings of this object",
		})
	}
	rep.Conditions = []report.Condition{resolved(reason, rep.Findings)}
	return rep, true
}

func of(owner report.Ref, list []report.Finding) []report.Finding {
	var out []report.Finding
	for _, f := range list {
		if f.Owner == owner {
			out = append(out, f)
		}
	}
	return out
}

func errorOn(owner report.Ref, field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Error, Owner: owner, Field: field, Problem: problem, Fix: fix}
}

func warningOn(owner report.Ref, field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Warning, Owner: owner, Field: field, Problem: problem, Fix: fix}
}

func infoOn(owner report.Ref, field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Info, Owner: owner, Field: field, Problem: problem, Fix: fix}
}
