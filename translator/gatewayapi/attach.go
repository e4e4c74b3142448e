package gatewayapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// Candidate resolves the parentRefs of the route with this key of store.ByRoute. It returns nil if
// the route does not exist.
func Candidate(r store.Reader, cfg Config, gateways func(key string) (*model.Gateway, bool),
	key string) *model.Candidate {
	rt, ok := findRoute(r, key)
	if !ok {
		return nil
	}
	c := &model.Candidate{Route: rt.ref, Hostnames: rt.hosts()}
	if !rt.created.IsZero() {
		c.Created = rt.created.Unix()
	}
	p := parentFinder{r: r, cfg: cfg, gateways: gateways, route: rt, out: c}
	p.find()
	return c
}

type parentFinder struct {
	r        store.Reader
	cfg      Config
	gateways func(key string) (*model.Gateway, bool)
	route    route
	out      *model.Candidate
}

func (p *parentFinder) find() {
	if p.route.common.UseDefaultGateways == gatewayv1.GatewayDefaultScopeAll {
		p.report(report.Warning, "spec.useDefaultGateways", "default Gateways are not supported",
			"name the Gateway in parentRefs")
	}
	if len(p.route.common.ParentRefs) == 0 {
		p.report(report.Warning, "spec.parentRefs", "the route has no parent and takes no traffic",
			"name a Gateway in parentRefs")
	}
	for i := range p.route.common.ParentRefs {
		p.parent(i)
	}
}

func parentRef(namespace string, spec *gatewayv1.ParentReference) report.ParentRef {
	return report.ParentRef{
		Group: string(ptr.Deref(spec.Group, gatewayv1.GroupName)), Kind: string(ptr.Deref(spec.Kind, "Gateway")),
		Namespace: string(ptr.Deref(spec.Namespace, gatewayv1.Namespace(namespace))), Name: string(spec.Name),
		SectionName: string(ptr.Deref(spec.SectionName, "")), Port: ptr.Deref(spec.Port, 0),
	}
}

func (p *parentFinder) parent(i int) {
	field := fmt.Sprintf("spec.parentRefs[%d]", i)
	ref := parentRef(p.route.ref.Namespace, &p.route.common.ParentRefs[i])
	if ref.Group != gatewayv1.GroupName || ref.Kind != "Gateway" && ref.Kind != "ListenerSet" {
		p.report(report.Warning, field, fmt.Sprintf("parents of kind %s (%s) are not supported", ref.Kind, ref.Group),
			"name a Gateway or a ListenerSet")
		return
	}
	gw := p.gateway(ref, field)
	if gw == nil {
		return
	}
	parent := model.CandidateParent{Field: field, Ref: ref}
	parent.Places, parent.NotAccepted = p.places(gw, ref)
	slices.SortFunc(parent.Places, func(a, b model.Place) int { return strings.Compare(a.Listener, b.Listener) })
	if parent.NotAccepted != nil {
		p.report(report.Error, field, parent.NotAccepted.Message, "")
	} else if first := parent.Places[0]; ref.SectionName != "" && first.Chain != "" && len(first.Hosts) == 0 {
		p.report(report.Warning, field,
			fmt.Sprintf(
				"listener %s takes no request for the route's hostnames: they belong to listeners with more "+
					"specific hostnames", ref.SectionName), "")
	}
	p.out.Parents = append(p.out.Parents, parent)
}

func (p *parentFinder) gateway(ref report.ParentRef, field string) *model.Gateway {
	key := objectid.Join(ref.Namespace, ref.Name)
	severity := report.Error
	if !p.cfg.AnyClass { // another controller's parent may be created later
		severity = report.Warning
	}
	if ref.Kind == "ListenerSet" {
		set, ok := store.ListenerSets.Get(p.r, key)
		if !ok {
			p.report(severity, field, p.missing(store.ListenerSets, key), fixMissing)
			return nil
		}
		if key = parentOf(set); key == "" {
			p.report(severity, field, fmt.Sprintf("ListenerSet %s/%s has no Gateway", ref.Namespace, ref.Name), "")
			return nil
		}
	}
	gw, mine := p.gateways(key)
	if mine {
		return gw
	}
	if _, exists := store.Gateways.Get(p.r, key); !exists {
		p.report(severity, field, p.missing(store.Gateways, key), fixMissing)
	}
	return nil
}

func (p *parentFinder) missing(kind store.Kind, key string) string {
	ref := store.RefOf(kind, key)
	return NotExist(p.r, report.Ref{Namespace: ref.Namespace}, ref)
}

const fixMissing = "create it, or name one that exists"

func (p *parentFinder) places(gw *model.Gateway, ref report.ParentRef) (out []model.Place,
	notAccepted *report.Condition) {
	owner := report.Ref{Group: ref.Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
	selected, allowed := 0, 0
	for _, l := range gw.Listeners {
		if l.Owner != owner || ref.SectionName != "" && ref.SectionName != l.Name ||
			ref.Port != 0 && ref.Port != int32(l.Port) {
			continue
		}
		selected++
		if !p.allowed(l) {
			continue
		}
		allowed++
		if place, ok := p.place(gw, l); ok {
			out = append(out, place)
		}
	}
	none := func(reason gatewayv1.RouteConditionReason, message string) ([]model.Place, *report.Condition) {
		c := falseCondition(gatewayv1.RouteConditionAccepted, reason, message)
		return nil, &c
	}
	switch {
	case selected == 0 && !slices.ContainsFunc(gw.Listeners, func(l *model.Listener) bool { return l.Owner == owner }):
		return none(gatewayv1.RouteReasonNoMatchingParent,
			fmt.Sprintf("%s has no listener that is part of a Gateway: see its conditions", owner))
	case selected == 0 && ref.Port != 0 && ref.SectionName != "":
		return none(gatewayv1.RouteReasonNoMatchingParent,
			fmt.Sprintf("%s has no listener %s with port %d", owner, ref.SectionName, ref.Port))
	case selected == 0 && ref.Port != 0:
		return none(gatewayv1.RouteReasonNoMatchingParent,
			fmt.Sprintf("%s has no listener with port %d", owner, ref.Port))
	case selected == 0:
		return none(gatewayv1.RouteReasonNoMatchingParent,
			fmt.Sprintf("%s has no listener %s%s", owner, ref.SectionName,
				DidYouMean(ref.SectionName, listenerNames(gw, owner))))
	case allowed == 0:
		return none(gatewayv1.RouteReasonNotAllowedByListeners,
			fmt.Sprintf("no listener of %s allows %ss of namespace %s (see its protocol and allowedRoutes)",
				owner, p.route.ref.Kind, p.route.ref.Namespace))
	case len(out) == 0:
		return none(gatewayv1.RouteReasonNoMatchingListenerHostname,
			fmt.Sprintf("no listener of %s has a hostname that goes with %s", owner,
				strings.Join(p.out.Hostnames, ", ")))
	}
	return out, nil
}

func listenerNames(gw *model.Gateway, owner report.Ref) (out []string) {
	for _, l := range gw.Listeners {
		if l.Owner == owner {
			out = append(out, l.Name)
		}
	}
	return out
}

func (p *parentFinder) allowed(l *model.Listener) bool {
	return slices.Contains(l.Allowed.Kinds, report.Ref{Group: p.route.ref.Group, Kind: p.route.ref.Kind}) &&
		allowedNamespace(p.r, l.Allowed.From, l.Allowed.Selector, l.Owner.Namespace, p.route.ref.Namespace)
}

func allowedNamespace(r store.Reader, from, selector, owner, namespace string) bool {
	switch gatewayv1.FromNamespaces(from) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return namespace == owner
	case gatewayv1.NamespacesFromSelector:
		parsed, err := labels.Parse(selector)
		return err == nil && parsed.Matches(namespaceLabels(r, namespace))
	}
	return false
}

// Kubernetes adds the name label to each namespace, so a selector by name needs no Namespace
// object.
func namespaceLabels(r store.Reader, name string) labels.Set {
	set := labels.Set{corev1.LabelMetadataName: name}
	if ns, ok := store.Namespaces.Get(r, name); ok {
		maps.Copy(set, ns.Labels)
	}
	return set
}

// place attaches a route to a listener, without the hosts of a more specific listener. If the
// listener takes no traffic, the route has no hosts but counts as attached.
func (p *parentFinder) place(gw *model.Gateway, l *model.Listener) (model.Place, bool) {
	place := model.Place{Gateway: gw.Ref.Key(), Listener: l.Key, Chain: l.Chain, Stream: l.Stream(),
		Passthrough: l.Passthrough, ListenerHost: l.Hostname}
	meet := false
	for _, h := range p.out.Hostnames {
		host, ok := intersect(l.Hostname, h)
		if !ok {
			continue
		}
		meet = true
		if l.Chain != "" && ownerOf(gw, l, host) == l {
			place.Hosts = append(place.Hosts, host)
		}
	}
	slices.Sort(place.Hosts)
	place.Hosts = slices.Compact(place.Hosts)
	return place, meet
}

func (p *parentFinder) report(severity report.Severity, field, problem, fix string) {
	p.out.Findings = append(p.out.Findings, report.Finding{
		Severity: severity, Owner: p.out.Route, Field: field, Problem: problem, Fix: fix,
	})
}
