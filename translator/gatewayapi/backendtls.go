package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// BackendTLS is what a BackendTLSPolicy makes of the connections to a backend.
type BackendTLS struct {
	Policy report.Ref
	TLS    *model.UpstreamTLS // nil: the policy trusts nobody, and connections must fail
}

// PolicyFor says how the endpoints of a backend are to be spoken to; nil if no policy says anything. The section is the
// name of a Service's port, or of an exporting cluster of an import: a policy for it comes before one for the whole.
func PolicyFor(r store.Reader, target report.Ref, section string) *BackendTLS {
	p := winner(r, target, section)
	if p == nil {
		return nil
	}
	out := &BackendTLS{Policy: store.BackendTLSPolicies.Ref(p)}
	if d := decidePolicy(r, p); d.accepted.Type == "" {
		out.TLS = d.tls
	}
	return out
}

// PolicyTrust is the bundle of CA certificates of the policy with a key; false if it has none.
func PolicyTrust(r store.Reader, key string) (*model.Secret, bool) {
	p, ok := store.BackendTLSPolicies.Get(r, key)
	if !ok {
		return nil, false
	}
	bundle, _ := trust(r, store.BackendTLSPolicies.Ref(p), policyRefs(p))
	return &model.Secret{Name: model.PolicyTrust(p.Namespace, p.Name), CA: bundle, Owner: store.BackendTLSPolicies.Ref(p)}, len(bundle) > 0
}

// winner is the policy that counts for a section of a target: of equal ones the oldest, then the first by name.
func winner(r store.Reader, target report.Ref, section string) *gatewayv1.BackendTLSPolicy {
	policies := store.BackendTLSPolicies.By(r, store.ByTarget, store.TargetKey(target.Kind, target.Namespace, target.Name))
	for _, s := range []string{section, ""} {
		var best *gatewayv1.BackendTLSPolicy
		for _, p := range policies {
			if selects(p, target, s) && (best == nil || older(p, best)) {
				best = p
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

func selects(p *gatewayv1.BackendTLSPolicy, target report.Ref, section string) bool {
	return slices.ContainsFunc(p.Spec.TargetRefs, func(t gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
		return string(t.Group) == target.Group && string(t.Kind) == target.Kind && string(t.Name) == target.Name && sectionOf(t) == section
	})
}

func sectionOf(t gatewayv1.LocalPolicyTargetReferenceWithSectionName) string {
	if t.SectionName == nil {
		return ""
	}
	return string(*t.SectionName)
}

func older(a, b *gatewayv1.BackendTLSPolicy) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(store.ID(a), store.ID(b))) < 0
}

// policyDecision is what a policy says by itself, whatever else there is for its targets.
type policyDecision struct {
	tls                *model.UpstreamTLS
	accepted, resolved report.Condition // zero: nothing is wrong
	findings           []report.Finding
}

func policyRefs(p *gatewayv1.BackendTLSPolicy) (refs []report.Ref) {
	for _, c := range p.Spec.Validation.CACertificateRefs {
		refs = append(refs, report.Ref{Group: string(c.Group), Kind: string(c.Kind), Namespace: p.Namespace, Name: string(c.Name)})
	}
	return refs
}

func decidePolicy(r store.Reader, p *gatewayv1.BackendTLSPolicy) policyDecision {
	v, ref := &p.Spec.Validation, store.BackendTLSPolicies.Ref(p)
	d := policyDecision{tls: &model.UpstreamTLS{SNI: string(v.Hostname)}}
	switch {
	case len(v.CACertificateRefs) > 0:
		bundle, problems := trust(r, ref, policyRefs(p))
		var said []string
		for _, t := range problems {
			said = append(said, t.text)
			d.findings = append(d.findings, finding(ref, fmt.Sprintf("spec.validation.caCertificateRefs[%d]", t.index), t.text, ""))
		}
		if len(problems) > 0 {
			reason := gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef
			if problems[0].why == caKind {
				reason = gatewayv1.BackendTLSPolicyReasonInvalidKind
			}
			d.resolved = falseCondition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, reason, strings.Join(said, "; "))
		}
		if len(bundle) == 0 {
			d.accepted = falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.BackendTLSPolicyReasonNoValidCACertificate, strings.Join(said, "; ")+"; requests are answered 503")
		}
		d.tls.Trust = model.PolicyTrust(p.Namespace, p.Name)
	case v.WellKnownCACertificates == nil || *v.WellKnownCACertificates != gatewayv1.WellKnownCACertificatesSystem:
		problem := "caCertificateRefs or wellKnownCACertificates: System is needed"
		if v.WellKnownCACertificates != nil {
			problem = fmt.Sprintf("there is no set of CA certificates called %s", *v.WellKnownCACertificates)
		}
		d.accepted = falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonInvalid, problem+"; requests are answered 503")
		d.findings = append(d.findings, finding(ref, "spec.validation.wellKnownCACertificates", problem, "use System, or name a ConfigMap in caCertificateRefs"))
	}
	for _, s := range v.SubjectAltNames {
		if s.Type == gatewayv1.URISubjectAltNameType {
			d.tls.URIs = append(d.tls.URIs, string(s.URI))
		} else {
			d.tls.SANs = append(d.tls.SANs, strings.ToLower(string(s.Hostname)))
		}
	}
	if len(v.SubjectAltNames) == 0 {
		d.tls.SANs = []string{string(v.Hostname)}
	}
	for _, option := range sortedKeys(p.Spec.Options) {
		f := finding(ref, fmt.Sprintf("spec.options[%s]", option), "TLS options are not supported: it has no effect", "")
		f.Severity = report.Warning
		d.findings = append(d.findings, f)
	}
	return d
}

// PolicyReport is what is said of the BackendTLSPolicy with a key. gateways are those that send requests to its targets,
// streams the routes that pass TLS through to them, sections what a target is divided into (nil: there is no such target).
func PolicyReport(r store.Reader, key string, gateways, streams []report.Ref, sections func(target report.Ref) []string) (report.Report, bool) {
	p, ok := store.BackendTLSPolicies.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	ref := store.BackendTLSPolicies.Ref(p)
	d := decidePolicy(r, p)
	var lost, found []report.Condition
	for i, t := range p.Spec.TargetRefs {
		target := report.Ref{Group: string(t.Group), Kind: string(t.Kind), Namespace: p.Namespace, Name: string(t.Name)}
		c := targeted(r, p, target, sectionOf(t), sections(target))
		if c.Status == report.True && target.Kind == store.InferencePools.Kind() {
			d.findings = append(d.findings, report.Finding{Severity: report.Info, Owner: ref, Field: fmt.Sprintf("spec.targetRefs[%d]", i),
				Problem: fmt.Sprintf("requests to %s go over TLS; Penstock's own picker still reads its metrics without", target)})
		}
		if c.Status == report.True {
			found = append(found, c)
			continue
		}
		lost = append(lost, c)
		d.findings = append(d.findings, finding(ref, fmt.Sprintf("spec.targetRefs[%d]", i), c.Message, ""))
	}
	accepted := trueCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonAccepted)
	switch {
	case len(found) == 0 && len(lost) > 0:
		accepted = lost[0]
	case d.accepted.Type != "":
		accepted = d.accepted
	}
	resolved := trueCondition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, gatewayv1.BackendTLSPolicyReasonResolvedRefs)
	if d.resolved.Type != "" {
		resolved = d.resolved
	}
	out := report.Report{Owner: ref, Findings: d.findings}
	for _, s := range streams {
		out.Findings = append(out.Findings, report.Finding{Severity: report.Info, Owner: ref, Field: "spec.targetRefs",
			Problem: fmt.Sprintf("connections of %s are TLS between client and backend already: the policy does not touch them", s)})
	}
	for _, gw := range gateways {
		out.Parents = append(out.Parents, report.Parent{
			Ref:        report.ParentRef{Group: gw.Group, Kind: gw.Kind, Namespace: gw.Namespace, Name: gw.Name},
			Conditions: []report.Condition{accepted, resolved},
		})
	}
	return out, true
}

// targeted is the Accepted condition of a policy as far as one of its targets goes.
func targeted(r store.Reader, p *gatewayv1.BackendTLSPolicy, target report.Ref, section string, sections []string) report.Condition {
	missing := func(format string, args ...any) report.Condition {
		return falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonTargetNotFound, fmt.Sprintf(format, args...))
	}
	switch {
	case !policyTargets(target):
		return missing("targets of kind %s (%q) are not supported: use a Service, an InferencePool or an InferencePoolImport", target.Kind, target.Group)
	case sections == nil:
		return missing("%s does not exist", target)
	case section != "" && !slices.Contains(sections, section):
		return missing("%s has no section %s: a Service has its ports' names, an InferencePoolImport its exporting clusters", target, section)
	}
	if w := winner(r, target, section); store.ID(w) != store.ID(p) {
		return falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonConflicted, fmt.Sprintf("BackendTLSPolicy %s is about the same target and is older, or first by name", store.ID(w)))
	}
	return trueCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonAccepted)
}

func policyTargets(t report.Ref) bool {
	switch t.Kind {
	case "Service":
		return t.Group == ""
	case store.InferencePools.Kind():
		return t.Group == store.InferencePools.Group()
	case store.InferencePoolImports.Kind():
		return t.Group == store.InferencePoolImports.Group()
	}
	return false
}
