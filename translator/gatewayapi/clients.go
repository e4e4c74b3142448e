package gatewayapi

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

type clientRule struct {
	port       uint16
	field      string
	validation *gatewayv1.FrontendTLSValidation // nil: no certificate is required
}

func clientRules(gw *gatewayv1.Gateway) []clientRule {
	if gw.Spec.TLS == nil || gw.Spec.TLS.Frontend == nil {
		return nil
	}
	f := gw.Spec.TLS.Frontend
	out := []clientRule{{0, "spec.tls.frontend.default.validation", f.Default.Validation}}
	for i := range f.PerPort {
		p := &f.PerPort[i]
		out = append(out,
			clientRule{uint16(p.Port), fmt.Sprintf("spec.tls.frontend.perPort[%d].tls.validation", i),
				p.TLS.Validation})
	}
	return out
}

func ruleFor(rules []clientRule, port uint16) (out clientRule) {
	for _, c := range rules {
		if c.port == port || c.port == 0 {
			out = c
		}
		if c.port == port {
			break
		}
	}
	return out
}

func (c clientRule) refs(gw *gatewayv1.Gateway) (refs []report.Ref) {
	for _, ref := range c.validation.CACertificateRefs {
		refs = append(refs, report.Ref{Group: string(ref.Group), Kind: string(ref.Kind),
			Namespace: cmp.Or(string(ptr.Deref(ref.Namespace, "")), gw.Namespace), Name: string(ref.Name)})
	}
	return refs
}

// ClientTrust returns a Gateway's CA bundle for client certificates on a port. Port 0 means the
// default bundle.
func ClientTrust(r store.Reader, key string, port uint16) (*model.Secret, bool) {
	gw, ok := store.Gateways.Get(r, key)
	if !ok {
		return nil, false
	}
	owner := store.Gateways.Ref(gw)
	for _, c := range clientRules(gw) {
		if c.port == port && c.validation != nil {
			bundle, _ := trust(r, owner, c.refs(gw))
			name := model.GatewayTrust(gw.Namespace, gw.Name, port)
			return &model.Secret{Name: name, CA: bundle, Owners: []report.Ref{owner}}, len(bundle) > 0
		}
	}
	return nil, false
}

// clients configures the verification of client certificates. If no CA certificate resolves, the
// listener takes no traffic.
func (b *listenerBuilder) clients(l *model.Listener, s *listenerState) {
	c := ruleFor(clientRules(b.gw), l.Port)
	if c.validation == nil {
		return
	}
	bundle, problems := trust(b.r, b.out.Ref, c.refs(b.gw))
	var messages []string
	for _, p := range problems {
		messages = append(messages, p.text)
	}
	if len(problems) > 0 {
		reason := map[caProblem]gatewayv1.ListenerConditionReason{
			caBroken: gatewayv1.ListenerReasonInvalidCACertificateRef,
			caKind:   gatewayv1.ListenerReasonInvalidCACertificateKind,
			caDenied: gatewayv1.ListenerReasonRefNotPermitted,
		}[problems[0].why]
		s.resolved = falseCondition(gatewayv1.ListenerConditionResolvedRefs, reason, strings.Join(messages, "; "))
	}
	if len(bundle) == 0 {
		s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonNoValidCACertificate,
			strings.Join(messages, "; "))
		return
	}
	l.Clients = &model.ClientValidation{
		Trust:    model.GatewayTrust(b.gw.Namespace, b.gw.Name, c.port),
		Optional: c.validation.Mode == gatewayv1.AllowInsecureFallback,
	}
}

// clientFindings returns a condition about rules that allow clients without a valid certificate, or
// nil.
func clientFindings(r store.Reader, out *model.Gateway, gw *gatewayv1.Gateway) *report.Condition {
	var open []string
	for _, c := range clientRules(gw) {
		if c.validation == nil {
			continue
		}
		_, problems := trust(r, out.Ref, c.refs(gw))
		for _, p := range problems {
			out.Findings = append(out.Findings,
				finding(out.Ref, fmt.Sprintf("%s.caCertificateRefs[%d]", c.field, p.index), p.text, ""))
		}
		if c.validation.Mode == gatewayv1.AllowInsecureFallback {
			open = append(open, c.field)
			out.Findings = append(out.Findings,
				warning(out.Ref, c.field+".mode", "clients are let in without a valid certificate",
					"use AllowValidOnly, or have the backends look at x-forwarded-client-cert"))
		}
	}
	if len(open) == 0 {
		return nil
	}
	c := trueCondition(gatewayv1.GatewayConditionInsecureFrontendValidationMode,
		gatewayv1.GatewayReasonConfigurationChanged)
	c.Message = "AllowInsecureFallback is set in " + strings.Join(open, ", ")
	return &c
}

func ownCertificate(r store.Reader, out *model.Gateway, gw *gatewayv1.Gateway) *report.Condition {
	if gw.Spec.TLS == nil || gw.Spec.TLS.Backend == nil || gw.Spec.TLS.Backend.ClientCertificateRef == nil {
		return nil
	}
	target := secretRef(gw.Namespace, *gw.Spec.TLS.Backend.ClientCertificateRef)
	secret, _, problem := usableCertificate(r, out.Ref, target)
	if problem == "" {
		out.Certificate = secret.Name
		return nil
	}
	out.Findings = append(out.Findings, finding(out.Ref, "spec.tls.backend.clientCertificateRef", problem, ""))
	reason := gatewayv1.GatewayReasonInvalidClientCertificateRef
	if !Granted(r, out.Ref, target) {
		reason = gatewayv1.GatewayReasonRefNotPermitted
	}
	c := falseCondition(gatewayv1.GatewayConditionResolvedRefs, reason, problem)
	return &c
}
