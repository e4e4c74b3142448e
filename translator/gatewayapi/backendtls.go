package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

// BackendTLS is a BackendTLSPolicy's effect on connections to a backend.
type BackendTLS struct {
	Policy report.Ref
	TLS    *model.UpstreamTLS // nil without a valid CA certificate: connections must fail
}

// Secure makes a cluster originate the policy's TLS.
func (b *BackendTLS) Secure(c *model.Cluster) {
	if b != nil {
		c.TLS, c.Owners = b.TLS, append(slices.Clip(c.Owners), b.Policy)
	}
}

// Trusts reports whether the backend may have endpoints. Without a valid CA certificate it has
// none, so that requests get 503, and are not sent in cleartext.
func (b *BackendTLS) Trusts() bool { return b == nil || b.TLS != nil }

// BackendPolicy returns the policy in force for a cluster's object, or nil.
func BackendPolicy(r store.Reader, id model.ClusterID) *BackendTLS {
	target, ok := policyTarget(id)
	if !ok {
		return nil
	}
	section := id.Member
	if isService(target) {
		svc, ok := services.Find(r, target)
		if !ok {
			return nil
		}
		section = ""
		if p := services.Port(svc.Service, id.Port, services.Transport(id)); p != nil {
			section = p.Name
		}
	}
	if id.Kind == model.ImportPickerKind {
		if only := pickerSection(id.Member); oldest(policiesOf(r, target), target, only) != nil {
			section = only
		}
	}
	return PolicyFor(r, target, section)
}

// pickerSection returns the section for an exporting cluster's picker, which may have TLS while the
// model servers speak cleartext. Without a policy for this section, policies for the cluster or the
// whole import apply to the picker.
func pickerSection(cluster string) string { return cluster + ".picker" }

// PolicyKeys returns the keys of all policies for a cluster's object or a section of the object.
func PolicyKeys(r store.Reader, id model.ClusterID) (keys []string) {
	target, ok := policyTarget(id)
	if !ok {
		return nil
	}
	policies := policiesOf(r, target)
	if isImport(target) && id.Member != "" {
		pinned := target
		pinned.Name = AliasName(target.Name, id.Member)
		if more := policiesOf(r, pinned); len(more) > 0 && IsImportAlias(r, target.Namespace, target.Name, id.Member) {
			policies = slices.Concat(policies, more)
		}
	}
	for _, p := range policies {
		keys = append(keys, store.ID(p))
	}
	return keys
}

const noTLSOptions = "TLS options are not supported: it has no effect"

func policyTarget(id model.ClusterID) (report.Ref, bool) {
	target := services.RefOf(id)
	switch id.Kind {
	case model.PassthroughKind:
		return target, false
	case model.PeerKind:
		return target, false
	case model.PoolKind:
		target.Group, target.Kind = store.InferencePools.Group(), store.InferencePools.Kind()
	case model.ImportKind, model.ParentKind, model.ImportPickerKind:
		target.Group, target.Kind = store.InferencePoolImports.Group(), store.InferencePoolImports.Kind()
	}
	return target, true
}

func policiesOf(r store.Reader, target report.Ref) []*gatewayv1.BackendTLSPolicy {
	return store.BackendTLSPolicies.By(r, store.ByTarget, store.TargetOf(target))
}

// PolicyFor returns the policy in force for a backend. A policy for the section (a Service's port
// name or an import's exporting cluster) precedes a policy for the whole backend.
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

// PolicyTrust returns the CA bundle of a policy, or false if it is missing or invalid.
func PolicyTrust(r store.Reader, key string) (*model.Secret, bool) {
	p, ok := store.BackendTLSPolicies.Get(r, key)
	if !ok {
		return nil, false
	}
	bundle, _ := trust(r, store.BackendTLSPolicies.Ref(p), policyRefs(p))
	owners := []report.Ref{store.BackendTLSPolicies.Ref(p)}
	return &model.Secret{Name: model.PolicyTrust(p.Namespace, p.Name), CA: bundle, Owners: owners}, len(bundle) > 0
}

// The oldest policy is in force, and of equally old policies the first by name. A policy for
// NAME-CLUSTER applies to section CLUSTER of the import NAME.
func winner(r store.Reader, target report.Ref, section string) *gatewayv1.BackendTLSPolicy {
	list := policiesOf(r, target)
	if p := oldest(list, target, section); section != "" {
		if isImport(target) {
			pinned := target
			pinned.Name = AliasName(target.Name, section)
			q := oldest(policiesOf(r, pinned), pinned, "")
			if q != nil && (p == nil || older(q, p)) && IsImportAlias(r, target.Namespace, target.Name, section) {
				p = q
			}
		}
		if p != nil {
			return p
		}
	}
	p := oldest(list, target, "")
	if p != nil && isImport(target) && !HasItsName(r, target.Namespace, target.Name) {
		return nil
	}
	return p
}

func oldest(
	list []*gatewayv1.BackendTLSPolicy, target report.Ref, section string,
) (best *gatewayv1.BackendTLSPolicy) {
	for _, p := range list {
		if selects(p, target, section) && (best == nil || older(p, best)) {
			best = p
		}
	}
	return best
}

func isService(t report.Ref) bool {
	return t.Group == "" && t.Kind == store.Services.Kind() || services.IsServiceImport(t)
}

func isImport(t report.Ref) bool {
	return t.Group == store.InferencePoolImports.Group() && t.Kind == store.InferencePoolImports.Kind()
}

func unaliased(r store.Reader, target report.Ref, section string) (report.Ref, string) {
	if !isImport(target) || section != "" {
		return target, section
	}
	if key, cluster, ok := ImportNamed(r, target.Namespace, target.Name); ok && cluster != "" {
		target.Name = strings.TrimPrefix(key, target.Namespace+"/")
		return target, cluster
	}
	return target, section
}

func selects(p *gatewayv1.BackendTLSPolicy, target report.Ref, section string) bool {
	return slices.ContainsFunc(p.Spec.TargetRefs, func(t gatewayv1.LocalPolicyTargetReferenceWithSectionName) bool {
		return string(t.Group) == target.Group && string(t.Kind) == target.Kind && string(t.Name) == target.Name &&
			sectionOf(t) == section
	})
}

func sectionOf(t gatewayv1.LocalPolicyTargetReferenceWithSectionName) string {
	return string(ptr.Deref(t.SectionName, ""))
}

func targetOf(p *gatewayv1.BackendTLSPolicy, t gatewayv1.LocalPolicyTargetReferenceWithSectionName) report.Ref {
	return report.Ref{Group: string(t.Group), Kind: string(t.Kind), Namespace: p.Namespace, Name: string(t.Name)}
}

func older(a, b *gatewayv1.BackendTLSPolicy) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(store.ID(a), store.ID(b))) < 0
}

type policyDecision struct {
	tls                *model.UpstreamTLS
	accepted, resolved report.Condition
	findings           []report.Finding
}

func policyRefs(p *gatewayv1.BackendTLSPolicy) (refs []report.Ref) {
	for _, c := range p.Spec.Validation.CACertificateRefs {
		refs = append(refs,
			report.Ref{Group: string(c.Group), Kind: string(c.Kind), Namespace: p.Namespace, Name: string(c.Name)})
	}
	return refs
}

func decidePolicy(r store.Reader, p *gatewayv1.BackendTLSPolicy) policyDecision {
	v, ref := &p.Spec.Validation, store.BackendTLSPolicies.Ref(p)
	d := policyDecision{tls: &model.UpstreamTLS{SNI: string(v.Hostname)}}
	switch {
	case len(v.CACertificateRefs) > 0:
		bundle, problems := trust(r, ref, policyRefs(p))
		var messages []string
		for _, t := range problems {
			messages = append(messages, t.text)
			d.findings = append(d.findings,
				finding(ref, fmt.Sprintf("spec.validation.caCertificateRefs[%d]", t.index), t.text, ""))
		}
		if len(problems) > 0 {
			reason := gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef
			if problems[0].why == caKind {
				reason = gatewayv1.BackendTLSPolicyReasonInvalidKind
			}
			d.resolved = falseCondition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, reason,
				strings.Join(messages, "; "))
		}
		if len(bundle) == 0 {
			d.accepted = falseCondition(gatewayv1.PolicyConditionAccepted,
				gatewayv1.BackendTLSPolicyReasonNoValidCACertificate,
				strings.Join(messages, "; ")+"; requests are answered 503")
		}
		d.tls.Trust = model.PolicyTrust(p.Namespace, p.Name)
	case v.WellKnownCACertificates == nil || *v.WellKnownCACertificates != gatewayv1.WellKnownCACertificatesSystem:
		problem := "caCertificateRefs or wellKnownCACertificates: System is needed"
		if v.WellKnownCACertificates != nil {
			problem = fmt.Sprintf("there is no set of CA certificates called %s", *v.WellKnownCACertificates)
		}
		d.accepted = falseCondition(gatewayv1.PolicyConditionAccepted, gatewayv1.PolicyReasonInvalid,
			problem+"; requests are answered 503")
		d.findings = append(d.findings,
			finding(ref, "spec.validation.wellKnownCACertificates", problem,
				"use System, or name a ConfigMap in caCertificateRefs"))
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
		d.findings = append(d.findings, warning(ref, fmt.Sprintf("spec.options[%s]", option), noTLSOptions, ""))
	}
	return d
}
