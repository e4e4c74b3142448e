package gatewayapi

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// routeKinds are the kinds of route that listeners take, by protocol.
var routeKinds = map[gatewayv1.ProtocolType][]report.Ref{
	gatewayv1.HTTPProtocolType:  {{Group: gatewayv1.GroupName, Kind: "HTTPRoute"}},
	gatewayv1.HTTPSProtocolType: {{Group: gatewayv1.GroupName, Kind: "HTTPRoute"}},
}

// listenerBuilder decides the listeners of one Gateway: each by itself first, then against each other.
type listenerBuilder struct {
	r     store.Reader
	gw    *gatewayv1.Gateway
	out   *model.Gateway
	state []listenerState // beside out.Listeners
}

// listenerState is what is wrong with a listener; a zero Type means nothing is.
type listenerState struct {
	accepted, resolved, conflicted report.Condition
	noCertificate                  bool // HTTPS without one usable certificate
}

func (b *listenerBuilder) add(i int) {
	spec := &b.gw.Spec.Listeners[i]
	field := fmt.Sprintf("spec.listeners[%d]", i)
	l := &model.Listener{Name: string(spec.Name), Port: uint16(spec.Port), Protocol: string(spec.Protocol), Hostname: "*"}
	if spec.Hostname != nil && *spec.Hostname != "" {
		l.Hostname = strings.ToLower(string(*spec.Hostname))
	}
	var s listenerState
	kinds, ok := routeKinds[spec.Protocol]
	if !ok {
		problem := fmt.Sprintf("protocol %s is not supported", spec.Protocol)
		s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonUnsupportedProtocol, problem)
		b.find(field+".protocol", problem, "use HTTP or HTTPS")
	} else {
		b.allowed(l, &s, spec, kinds, field)
		if spec.Protocol == gatewayv1.HTTPSProtocolType {
			b.tls(l, &s, spec, field)
		}
	}
	b.out.Listeners = append(b.out.Listeners, l)
	b.state = append(b.state, s)
}

// allowed reads allowedRoutes.
func (b *listenerBuilder) allowed(l *model.Listener, s *listenerState, spec *gatewayv1.Listener, kinds []report.Ref, field string) {
	l.Allowed = model.AllowedRoutes{Kinds: kinds, From: string(gatewayv1.NamespacesFromSame)}
	l.SupportedKinds = kinds
	a := spec.AllowedRoutes
	if a == nil {
		return
	}
	if len(a.Kinds) > 0 {
		l.Allowed.Kinds = b.kinds(s, a.Kinds, kinds, field)
		l.SupportedKinds = l.Allowed.Kinds
	}
	if a.Namespaces == nil || a.Namespaces.From == nil {
		return
	}
	l.Allowed.From = string(*a.Namespaces.From)
	if *a.Namespaces.From != gatewayv1.NamespacesFromSelector {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(a.Namespaces.Selector)
	if err != nil || a.Namespaces.Selector == nil {
		problem := "from: Selector needs a selector"
		if err != nil {
			problem = err.Error()
		}
		l.Allowed.From = string(gatewayv1.NamespacesFromNone)
		s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonUnsupportedValue, problem)
		b.find(field+".allowedRoutes.namespaces.selector", problem, "write a label selector, such as matchLabels")
		return
	}
	l.Allowed.Selector = selector.String()
}

// kinds are those of the wanted kinds that are supported, in the order of the spec.
func (b *listenerBuilder) kinds(s *listenerState, wanted []gatewayv1.RouteGroupKind, supported []report.Ref, field string) (out []report.Ref) {
	for i, k := range wanted {
		ref := report.Ref{Group: gatewayv1.GroupName, Kind: string(k.Kind)}
		if k.Group != nil {
			ref.Group = string(*k.Group)
		}
		if slices.Contains(supported, ref) {
			if !slices.Contains(out, ref) {
				out = append(out, ref)
			}
			continue
		}
		problem := fmt.Sprintf("routes of kind %s (%s) are not supported on this listener", ref.Kind, ref.Group)
		s.resolved = falseCondition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidRouteKinds, problem)
		b.find(fmt.Sprintf("%s.allowedRoutes.kinds[%d]", field, i), problem, "use HTTPRoute")
	}
	return out
}

// tls reads the certificates of an HTTPS listener.
func (b *listenerBuilder) tls(l *model.Listener, s *listenerState, spec *gatewayv1.Listener, field string) {
	if v := b.clientValidation(spec.Port); v != "" {
		// Serving without the check would let in whom the user wants kept out.
		problem := "validation of client certificates is not supported; the listener stays closed"
		s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonUnsupportedValue, problem)
		b.find(v, problem, "remove it")
	}
	if spec.TLS != nil && spec.TLS.Mode != nil && *spec.TLS.Mode != gatewayv1.TLSModeTerminate {
		problem := fmt.Sprintf("TLS mode %s does not go with protocol HTTPS", *spec.TLS.Mode)
		s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonUnsupportedValue, problem)
		b.find(field+".tls.mode", problem, "use Terminate")
		return
	}
	if spec.TLS == nil || len(spec.TLS.CertificateRefs) == 0 {
		const problem = "an HTTPS listener needs a certificate"
		s.noCertificate = true
		s.resolved = falseCondition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidCertificateRef, problem)
		b.find(field+".tls.certificateRefs", problem, "name a Secret of type kubernetes.io/tls")
		return
	}
	b.certificates(l, s, spec.TLS, field+".tls")
}

func (b *listenerBuilder) certificates(l *model.Listener, s *listenerState, spec *gatewayv1.ListenerTLSConfig, field string) {
	var leaves []*x509.Certificate
	for i, ref := range spec.CertificateRefs {
		name, leaf, cond := b.certificate(ref)
		if cond.Type != "" {
			s.resolved = cond
			b.find(fmt.Sprintf("%s.certificateRefs[%d]", field, i), cond.Message, "")
			continue
		}
		leaves = append(leaves, leaf)
		if !slices.Contains(l.Secrets, name) {
			l.Secrets = append(l.Secrets, name)
		}
	}
	s.noCertificate = len(l.Secrets) == 0
	if !s.noCertificate && !fits(l.Hostname, leaves) {
		b.warn(field+".certificateRefs", fmt.Sprintf("no certificate is made out to %s: clients will refuse it", l.Hostname), "")
	}
	for _, option := range sortedKeys(spec.Options) {
		b.warn(fmt.Sprintf("%s.options[%s]", field, option), "TLS options are not supported: it has no effect", "")
	}
}

// clientValidation is the field that asks for validation of client certificates on a port; "" if none does.
func (b *listenerBuilder) clientValidation(port gatewayv1.PortNumber) string {
	if b.gw.Spec.TLS == nil || b.gw.Spec.TLS.Frontend == nil {
		return ""
	}
	for i, p := range b.gw.Spec.TLS.Frontend.PerPort {
		if p.Port == port {
			if p.TLS.Validation == nil {
				return ""
			}
			return fmt.Sprintf("spec.tls.frontend.perPort[%d].tls.validation", i)
		}
	}
	if b.gw.Spec.TLS.Frontend.Default.Validation == nil {
		return ""
	}
	return "spec.tls.frontend.default.validation"
}

// conflicts marks listeners that are not distinct. None of them wins (Gateway API, "Handling indistinct Listeners").
// Listeners of protocols that are not supported conflict with nobody.
func (b *listenerBuilder) conflicts() {
	for i, l := range b.out.Listeners {
		if _, ok := routeKinds[gatewayv1.ProtocolType(l.Protocol)]; !ok {
			continue
		}
		for j, o := range b.out.Listeners {
			if _, ok := routeKinds[gatewayv1.ProtocolType(o.Protocol)]; !ok || i == j || o.Port != l.Port {
				continue
			}
			if o.Protocol != l.Protocol {
				b.conflict(i, gatewayv1.ListenerReasonProtocolConflict, "protocol",
					fmt.Sprintf("port %d is also used for protocol %s, by listener %s", l.Port, o.Protocol, o.Name))
				break
			}
			if o.Hostname == l.Hostname {
				b.conflict(i, gatewayv1.ListenerReasonHostnameConflict, "hostname",
					fmt.Sprintf("listener %s has the same port, protocol and hostname", o.Name))
				break
			}
		}
	}
}

func (b *listenerBuilder) conflict(i int, reason gatewayv1.ListenerConditionReason, field, problem string) {
	b.state[i].conflicted = report.Condition{Type: string(gatewayv1.ListenerConditionConflicted), Status: report.True, Reason: string(reason), Message: problem}
	b.find(fmt.Sprintf("spec.listeners[%d].%s", i, field), problem, "of such listeners none is served: make them distinct")
}

// finish names the chains of the listeners that take traffic and writes the conditions.
func (b *listenerBuilder) finish(rejected bool) {
	for i, l := range b.out.Listeners {
		s := &b.state[i]
		accepted := trueCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonAccepted)
		resolved := trueCondition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonResolvedRefs)
		conflicted := falseCondition(gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerReasonNoConflicts, "")
		programmed := trueCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonProgrammed)
		if s.resolved.Type != "" {
			resolved = s.resolved
		}
		if s.accepted.Type != "" {
			accepted = s.accepted
		}
		if s.conflicted.Type != "" {
			conflicted = s.conflicted
			reason := gatewayv1.ListenerConditionReason(conflicted.Reason)
			accepted = falseCondition(gatewayv1.ListenerConditionAccepted, reason, conflicted.Message)
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, reason, conflicted.Message)
		}
		switch {
		case accepted.Status == report.True && !s.noCertificate && !rejected:
			l.Chain = model.ChainName(l.Protocol == string(gatewayv1.HTTPSProtocolType), l.Port, l.Hostname)
		case s.conflicted.Type != "":
		case accepted.Status != report.True:
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid, accepted.Message)
		case s.noCertificate:
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid, "no usable certificate")
		default:
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid, "the Gateway is not accepted")
		}
		l.Conditions = []report.Condition{accepted, programmed, resolved, conflicted}
	}
}

// overlaps marks HTTPS listeners of one port whose hostnames overlap: a client may reuse one's connection for the other
// (Gateway API, OverlappingTLSConfig; such requests are answered 421).
func overlaps(out *model.Gateway) {
	for _, l := range out.Listeners {
		var others []string
		for _, o := range out.Listeners {
			if o == l || o.Port != l.Port || o.Chain == "" || l.Chain == "" || o.Protocol != string(gatewayv1.HTTPSProtocolType) {
				continue
			}
			if _, ok := intersect(o.Hostname, l.Hostname); ok {
				others = append(others, o.Name)
			}
		}
		if len(others) > 0 {
			l.Conditions = append(l.Conditions, report.Condition{
				Type: string(gatewayv1.ListenerConditionOverlappingTLSConfig), Status: report.True,
				Reason:  string(gatewayv1.ListenerReasonOverlappingHostnames),
				Message: "the hostname overlaps with that of listener " + strings.Join(others, ", ") + "; misdirected requests are answered 421",
			})
		}
	}
}

func (b *listenerBuilder) warn(field, problem, fix string) {
	f := finding(b.out.Ref, field, problem, fix)
	f.Severity = report.Warning
	b.out.Findings = append(b.out.Findings, f)
}

func (b *listenerBuilder) find(field, problem, fix string) {
	b.out.Findings = append(b.out.Findings, finding(b.out.Ref, field, problem, fix))
}
