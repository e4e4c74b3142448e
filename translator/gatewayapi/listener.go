package gatewayapi

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

func routeKind(kind string) report.Ref { return report.Ref{Group: gatewayv1.GroupName, Kind: kind} }

// A passthrough listener takes no TCPRoute: only the server name distinguishes its connections.
func routeKinds(protocol string, passthrough bool) []report.Ref {
	switch gatewayv1.ProtocolType(protocol) {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return []report.Ref{routeKind("HTTPRoute"), routeKind("GRPCRoute")}
	case gatewayv1.TLSProtocolType:
		if passthrough {
			return []report.Ref{routeKind("TLSRoute")}
		}
		return []report.Ref{routeKind("TLSRoute"), routeKind("TCPRoute")}
	case gatewayv1.TCPProtocolType:
		return []report.Ref{routeKind("TCPRoute")}
	case gatewayv1.UDPProtocolType:
		return []report.Ref{routeKind("UDPRoute")}
	}
	return nil
}

type listenerBuilder struct {
	r        store.Reader
	gw       *gatewayv1.Gateway
	owner    report.Ref
	out      *model.Gateway
	state    []listenerState
	found    []report.Finding
	reserved uint16
}

type listenerState struct {
	field                          string
	source                         int // 0: the Gateway; then ListenerSets by descending precedence
	accepted, resolved, conflicted report.Condition
	noCertificate                  bool
}

func (b *listenerBuilder) add(spec *gatewayv1.Listener, source, i int) {
	field := fmt.Sprintf("spec.listeners[%d]", i)
	l := &model.Listener{
		Owner: b.owner, Name: string(spec.Name), Key: model.ListenerKey(b.owner, string(spec.Name)),
		Port: uint16(spec.Port), Protocol: string(spec.Protocol), Hostname: "*",
	}
	if spec.Hostname != nil && *spec.Hostname != "" && spec.Protocol != gatewayv1.TCPProtocolType && !l.Datagrams() {
		l.Hostname = strings.ToLower(string(*spec.Hostname))
	}
	s := listenerState{field: field, source: source}
	l.Passthrough = spec.Protocol == gatewayv1.TLSProtocolType && spec.TLS != nil && spec.TLS.Mode != nil &&
		*spec.TLS.Mode == gatewayv1.TLSModePassthrough
	kinds := routeKinds(l.Protocol, l.Passthrough)
	if len(kinds) == 0 {
		b.reject(&s, gatewayv1.ListenerReasonUnsupportedProtocol, field+".protocol",
			fmt.Sprintf("protocol %s is not supported", spec.Protocol), "use HTTP, HTTPS, TLS, TCP or UDP")
	} else {
		b.allowed(l, &s, spec, kinds, field)
		if l.ByName() && !l.Passthrough {
			b.tls(l, &s, spec, field)
		}
	}
	if b.reserved != 0 && l.Port == b.reserved && !l.Datagrams() {
		problem := fmt.Sprintf("port %d is taken in the proxies' pods, by their readiness probe", l.Port)
		s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonPortUnavailable,
			problem+"; choose another port")
		b.find(field+".port", problem, "choose another port")
	}
	b.out.Listeners = append(b.out.Listeners, l)
	b.state = append(b.state, s)
}

func (b *listenerBuilder) allowed(l *model.Listener, s *listenerState, spec *gatewayv1.Listener, kinds []report.Ref,
	field string) {
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
		b.reject(s, gatewayv1.ListenerReasonUnsupportedValue, field+".allowedRoutes.namespaces.selector", problem,
			"write a label selector, such as matchLabels")
		return
	}
	l.Allowed.Selector = selector.String()
}

func (b *listenerBuilder) kinds(s *listenerState, wanted []gatewayv1.RouteGroupKind, supported []report.Ref,
	field string) (out []report.Ref) {
	for i, k := range wanted {
		ref := report.Ref{Group: string(ptr.Deref(k.Group, gatewayv1.GroupName)), Kind: string(k.Kind)}
		if slices.Contains(supported, ref) {
			if !slices.Contains(out, ref) {
				out = append(out, ref)
			}
			continue
		}
		problem := fmt.Sprintf("routes of kind %s (%s) are not supported on this listener", ref.Kind, ref.Group)
		s.resolved = falseCondition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidRouteKinds,
			problem)
		b.find(fmt.Sprintf("%s.allowedRoutes.kinds[%d]", field, i), problem, "use "+kindNames(supported))
	}
	return out
}

func kindNames(kinds []report.Ref) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Kind
	}
	return strings.Join(names, " or ")
}

func (b *listenerBuilder) tls(l *model.Listener, s *listenerState, spec *gatewayv1.Listener, field string) {
	if spec.Protocol == gatewayv1.HTTPSProtocolType {
		b.clients(l, s)
	}
	if spec.TLS != nil && spec.TLS.Mode != nil && *spec.TLS.Mode != gatewayv1.TLSModeTerminate {
		b.reject(s, gatewayv1.ListenerReasonUnsupportedValue, field+".tls.mode",
			fmt.Sprintf("TLS mode %s does not go with protocol HTTPS", *spec.TLS.Mode), "use Terminate")
		return
	}
	if spec.TLS == nil || len(spec.TLS.CertificateRefs) == 0 {
		problem := fmt.Sprintf("a listener of protocol %s needs a certificate", spec.Protocol)
		s.noCertificate = true
		s.resolved = falseCondition(gatewayv1.ListenerConditionResolvedRefs,
			gatewayv1.ListenerReasonInvalidCertificateRef, problem)
		b.find(field+".tls.certificateRefs", problem, "name a Secret of type kubernetes.io/tls")
		return
	}
	b.certificates(l, s, spec.TLS, field+".tls")
}

func (b *listenerBuilder) certificates(l *model.Listener, s *listenerState, spec *gatewayv1.ListenerTLSConfig,
	field string) {
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
		b.warn(field+".certificateRefs",
			fmt.Sprintf("no certificate is valid for %s: clients will reject the connection", l.Hostname), "")
	}
	for _, option := range sortedKeys(spec.Options) {
		b.warn(fmt.Sprintf("%s.options[%s]", field, option), noTLSOptions, "")
	}
}

func (b *listenerBuilder) warn(field, problem, fix string) {
	b.found = append(b.found, warning(b.owner, field, problem, fix))
}

func (b *listenerBuilder) reject(s *listenerState, reason gatewayv1.ListenerConditionReason, field, problem,
	fix string) {
	s.accepted = falseCondition(gatewayv1.ListenerConditionAccepted, reason, problem)
	b.find(field, problem, fix)
}

func (b *listenerBuilder) find(field, problem, fix string) {
	b.found = append(b.found, finding(b.owner, field, problem, fix))
}
