package gatewayapi

import (
	"cmp"
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

func clash(l, o *model.Listener) (reason gatewayv1.ListenerConditionReason, field, problem string) {
	name := o.Name
	if o.Owner != l.Owner {
		name = fmt.Sprintf("%s of %s", o.Name, o.Owner)
	}
	switch {
	case o.Socket() != l.Socket() || len(routeKinds(l.Protocol, l.Passthrough)) == 0 ||
		len(routeKinds(o.Protocol, o.Passthrough)) == 0:
		return "", "", ""
	case l.ByName() && o.ByName() && l.Protocol != o.Protocol && l.Hostname == o.Hostname:
		return gatewayv1.ListenerReasonHostnameConflict, "hostname",
			fmt.Sprintf("listener %s, of protocol %s, has the same port and hostname", name, o.Protocol)
	case l.ByName() && o.ByName() && l.Protocol != o.Protocol:
		return "", "", ""
	case l.Protocol != o.Protocol:
		return gatewayv1.ListenerReasonProtocolConflict, "protocol",
			fmt.Sprintf("port %d is also used for protocol %s, by listener %s", l.Port, o.Protocol, name)
	case l.Protocol == string(gatewayv1.TCPProtocolType) || l.Datagrams():
		return gatewayv1.ListenerConditionReason(gatewayv1.ListenerEntryReasonListenerConflict), "port",
			fmt.Sprintf("listener %s has the same port and protocol", name)
	case l.Hostname == o.Hostname:
		return gatewayv1.ListenerReasonHostnameConflict, "hostname",
			fmt.Sprintf("listener %s has the same port, protocol and hostname", name)
	}
	return "", "", ""
}

// Within one object all listeners in a conflict lose (Gateway API, "Handling indistinct
// Listeners"). Between objects, the Gateway wins over its ListenerSets, and ListenerSets win by
// precedence. A listener that lost does not conflict with others.
func (b *listenerBuilder) conflicts() {
	for first := 0; first < len(b.state); {
		last := first
		for last < len(b.state) && b.state[last].source == b.state[first].source {
			last++
		}
		for i := first; i < last; i++ {
			b.against(i, 0, first,
				"the Gateway's own listeners come first, then listeners of older ListenerSets: make them distinct")
		}
		lost := make([]bool, last)
		for i := first; i < last; i++ {
			lost[i] = b.state[i].conflicted.Type != ""
		}
		for i := first; i < last; i++ {
			for j := first; j < last && !lost[i]; j++ {
				if i != j && !lost[j] && b.against(i, j, j+1, "none of these listeners is served: make them distinct") {
					break
				}
			}
		}
		first = last
	}
}

func (b *listenerBuilder) against(i, a, z int, fix string) bool {
	for j := a; j < z; j++ {
		if b.state[j].source != b.state[i].source && b.state[j].conflicted.Type != "" {
			continue
		}
		reason, field, problem := clash(b.out.Listeners[i], b.out.Listeners[j])
		if reason == "" {
			continue
		}
		s := &b.state[i]
		s.conflicted = report.Condition{Type: string(gatewayv1.ListenerConditionConflicted), Status: report.True,
			Reason: string(reason), Message: problem}
		b.found = append(b.found, finding(b.out.Listeners[i].Owner, s.field+"."+field, problem, fix))
		return true
	}
	return false
}

func (b *listenerBuilder) finish(rejected bool) {
	for i, l := range b.out.Listeners {
		s := &b.state[i]
		accepted := cmp.Or(s.accepted,
			trueCondition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonAccepted))
		resolved := cmp.Or(s.resolved,
			trueCondition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonResolvedRefs))
		conflicted := cmp.Or(s.conflicted,
			falseCondition(gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerReasonNoConflicts, ""))
		programmed := trueCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonProgrammed)
		if s.conflicted.Type != "" {
			reason := gatewayv1.ListenerConditionReason(conflicted.Reason)
			accepted = falseCondition(gatewayv1.ListenerConditionAccepted, reason, conflicted.Message)
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, reason, conflicted.Message)
		}
		switch {
		case accepted.Status == report.True && !s.noCertificate && !rejected:
			l.Chain = chainName(l)
		case s.conflicted.Type != "":
		case accepted.Status != report.True:
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid,
				accepted.Message)
		case s.noCertificate:
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid,
				"no usable certificate")
		default:
			programmed = falseCondition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid,
				"the Gateway is not accepted")
		}
		l.Conditions = []report.Condition{accepted, programmed, resolved, conflicted}
	}
}

func chainName(l *model.Listener) string {
	if l.Stream() {
		return streamName(l, l.Hostname)
	}
	return model.ChainName(l.ByName(), l.Port, l.Hostname)
}

// overlaps sets the condition OverlappingTLSConfig (Gateway API), because a client may use one
// connection for two listeners with overlapping hostnames.
func overlaps(out *model.Gateway) {
	for _, l := range out.Listeners {
		var others []string
		for _, o := range out.Listeners {
			if o == l || o.Socket() != l.Socket() || o.Chain == "" || l.Chain == "" ||
				l.Protocol != string(gatewayv1.HTTPSProtocolType) {
				continue
			}
			if _, ok := intersect(o.Hostname, l.Hostname); ok {
				others = append(others, o.Name)
			}
		}
		if len(others) > 0 {
			l.Conditions = append(l.Conditions, report.Condition{
				Type: string(gatewayv1.ListenerConditionOverlappingTLSConfig), Status: report.True,
				Reason: string(gatewayv1.ListenerReasonOverlappingHostnames),
				Message: "the hostname overlaps with the hostname of listener " + strings.Join(others, ", ") +
					"; misdirected requests are answered 421",
			})
		}
	}
}
