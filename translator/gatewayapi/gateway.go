package gatewayapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

const anyAddress = "0.0.0.0"

// Gateway translates a Gateway and its listeners. It returns nil if Penstock does not serve the
// Gateway (NotOurs).
func Gateway(r store.Reader, cfg Config, key string) *model.Gateway {
	gw, ok := store.Gateways.Get(r, key)
	if !ok {
		return nil
	}
	if mine, _ := ours(r, cfg, gw); !mine {
		return nil
	}
	out := &model.Gateway{Ref: store.Gateways.Ref(gw)}
	unsupported := bindings(out, cfg, gw)
	rejected := unsupported
	var bad *badParameters
	if out.Fleet, bad = parameters(r, gw); bad != nil {
		out.Findings = append(out.Findings, finding(out.Ref, bad.field, bad.problem, bad.fix))
		if rejected == nil {
			c := falseCondition(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonInvalidParameters,
				bad.field+": "+bad.problem)
			rejected = &c
		}
	}
	if rejected != nil {
		out.Fleet = nil
	}
	notUsed(out, gw)
	b := listenerBuilder{r: r, gw: gw, owner: out.Ref, out: out}
	if out.Fleet == nil || out.Fleet.Mode != v1alpha1.FleetExternal {
		b.reserved = cfg.ReservedPort
	}
	for i := range gw.Spec.Listeners {
		b.add(&gw.Spec.Listeners[i], 0, i)
	}
	b.sets()
	b.conflicts()
	b.finish(unsupported != nil) // bad parameters affect only proxies, and running proxies stay
	overlaps(out)
	gatewayConditions(out, rejected, ownCertificate(r, out, gw))
	if open := clientFindings(r, out, gw); open != nil {
		out.Conditions = append(out.Conditions, *open)
	}
	b.finishSets(out.Conditions[0], out.Conditions[1])
	b.share()
	return out
}

func bindings(out *model.Gateway, cfg Config, gw *gatewayv1.Gateway) *report.Condition {
	for i, a := range gw.Spec.Addresses {
		field := fmt.Sprintf("spec.addresses[%d]", i)
		unsupported := func(sub, problem, fix string) *report.Condition {
			out.Findings = append(out.Findings, finding(out.Ref, field+sub, problem, fix))
			c := falseCondition(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonUnsupportedAddress,
				field+": "+problem+": "+fix)
			return &c
		}
		if a.Type != nil && *a.Type != gatewayv1.IPAddressType {
			return unsupported(".type", fmt.Sprintf("addresses of type %s are not supported", *a.Type),
				"use type IPAddress, or leave addresses out")
		}
		if a.Value == "" {
			out.Addresses = append(out.Addresses, anyAddress)
			continue
		}
		ip, err := netip.ParseAddr(a.Value)
		if err != nil || ip.Zone() != "" { // Envoy rejects an address with a zone
			return unsupported(".value", fmt.Sprintf("%q is not an IP address", a.Value),
				"write an address such as 127.0.0.1, or leave addresses out")
		}
		out.Addresses = append(out.Addresses, ip.String())
	}
	if len(out.Addresses) == 0 || cfg.BehindService {
		out.Addresses = []string{anyAddress}
	}
	out.Addresses = sorted(out.Addresses, strings.Compare)
	return nil
}

func notUsed(out *model.Gateway, gw *gatewayv1.Gateway) {
	warn := func(field, problem, fix string) {
		out.Findings = append(out.Findings, warning(out.Ref, field, problem, fix))
	}
	if l := gw.Spec.AllowedListeners; l != nil && l.Namespaces != nil && l.Namespaces.From != nil &&
		*l.Namespaces.From == gatewayv1.NamespacesFromSelector {
		if _, err := metav1.LabelSelectorAsSelector(l.Namespaces.Selector); err != nil || l.Namespaces.Selector == nil {
			warn("spec.allowedListeners.namespaces.selector", "without a valid selector no ListenerSet is taken",
				"write a label selector, such as matchLabels")
		}
	}
	if gw.Spec.DefaultScope == gatewayv1.GatewayDefaultScopeAll {
		warn("spec.defaultScope", "default Gateways are not supported: only routes that name this Gateway attach",
			"name it in the routes' parentRefs")
	}
}

func gatewayConditions(out *model.Gateway, rejected, unshown *report.Condition) {
	var bad, unresolved []string
	own, serving := 0, 0
	for _, l := range out.Listeners {
		if l.Chain != "" {
			serving++
		}
		if l.Owner != out.Ref {
			continue
		}
		own++
		if report.Find(l.Conditions, string(gatewayv1.ListenerConditionAccepted)).Status != report.True {
			bad = append(bad, l.Name)
		}
		if report.Find(l.Conditions, string(gatewayv1.ListenerConditionResolvedRefs)).Status != report.True {
			unresolved = append(unresolved, l.Name)
		}
	}
	accepted := trueCondition(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonAccepted)
	switch {
	case rejected != nil:
		accepted = *rejected
	case len(bad) > 0:
		accepted.Reason = string(gatewayv1.GatewayReasonListenersNotValid)
		accepted.Message = "not accepted: listener " + strings.Join(bad, ", ")
		if len(bad) == own {
			accepted.Status = report.False
		}
	}
	programmed := trueCondition(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonProgrammed)
	switch {
	case rejected != nil:
		programmed = falseCondition(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid,
			"not accepted: "+rejected.Message)
	case serving == 0:
		programmed = falseCondition(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid,
			"no listener takes traffic")
	}
	resolved := trueCondition(gatewayv1.GatewayConditionResolvedRefs, gatewayv1.GatewayReasonResolvedRefs)
	switch {
	case unshown != nil:
		resolved = *unshown
	case len(unresolved) > 0:
		resolved = falseCondition(gatewayv1.GatewayConditionResolvedRefs, gatewayv1.GatewayReasonListenersNotResolved,
			"not resolved: listener "+strings.Join(unresolved, ", "))
	}
	out.Conditions = []report.Condition{accepted, programmed, resolved}
}

// Ports lists a Gateway's ports by number. On a port, each HTTPS listener has its own filter chain,
// and the cleartext listeners share one. The list has no chains of TCP and TLS listeners, because
// these depend on routes (Stream).
func Ports(gw *model.Gateway) []model.Port {
	ports := map[model.Socket]*model.Port{}
	for _, l := range gw.Listeners {
		if l.Chain == "" {
			continue
		}
		p := ports[l.Socket()]
		if p == nil {
			p = &model.Port{Gateway: gw.Ref.Key(), Number: l.Port, Addresses: gw.Addresses, Edge: edge(gw.Fleet),
				Owners: []report.Ref{gw.Ref}}
			if l.Datagrams() {
				p.Datagrams = model.DatagramCluster(gw.Ref.Namespace, gw.Ref.Name, l.Port)
			}
			ports[l.Socket()] = p
		}
		if !slices.Contains(p.Owners, l.Owner) {
			p.Owners = append(p.Owners, l.Owner)
		}
		if l.Stream() || slices.ContainsFunc(p.Chains, func(c model.Chain) bool { return c.Name == l.Chain }) {
			continue
		}
		p.Chains = append(p.Chains, chain(gw, l))
	}
	out := make([]model.Port, 0, len(ports))
	for _, p := range ports {
		slices.SortFunc(p.Chains, func(a, b model.Chain) int { return strings.Compare(a.Name, b.Name) })
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b model.Port) int { return a.Socket().Compare(b.Socket()) })
	return out
}

func chain(gw *model.Gateway, l *model.Listener) model.Chain {
	c := model.Chain{Name: l.Chain, TLS: l.ByName()}
	if !c.TLS {
		return c
	}
	c.Secrets, c.Clients = l.Secrets, l.Clients
	if l.Hostname != "*" {
		c.ServerName = l.Hostname
	}
	for _, o := range gw.Listeners {
		if o != l && o.Socket() == l.Socket() && o.Chain != "" {
			c.Misdirected = append(c.Misdirected, o.Hostname)
		}
	}
	slices.Sort(c.Misdirected)
	return c
}

func finding(owner report.Ref, field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Error, Owner: owner, Field: field, Problem: problem, Fix: fix}
}

func warning(owner report.Ref, field, problem, fix string) report.Finding {
	return report.Finding{Severity: report.Warning, Owner: owner, Field: field, Problem: problem, Fix: fix}
}
