package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// Attach decides one HTTPRoute: where it is attached, what its rules do, and what to say of it. key is
// "namespace/name"; nil if there is no such route. gateways returns a Gateway of ours, decided; false for others. A
// route of whose parents none is ours comes back without rules. One that is not Accepted keeps its Places all the same:
// its requests get what its rules have become, which is 500.
func Attach(r store.Reader, cfg Config, gateways func(key string) (*model.Gateway, bool), backends Backends, key string) *model.Attachment {
	route, ok := store.HTTPRoutes.Get(r, key)
	if !ok {
		return nil
	}
	a := &model.Attachment{Route: store.HTTPRoutes.Ref(route), Hostnames: routeHosts(route)}
	if !route.CreationTimestamp.IsZero() {
		a.Created = route.CreationTimestamp.Unix()
	}
	p := parentFinder{r: r, cfg: cfg, gateways: gateways, route: route, out: a}
	p.find()
	if len(a.Parents) == 0 {
		return a
	}
	b := ruleBuilder{r: r, backends: backends, route: route, out: a}
	b.build()
	for i := range a.Parents {
		a.Parents[i].Conditions = append(b.conditions(a.Parents[i].Conditions), b.resolvedRefs())
	}
	if !slices.ContainsFunc(a.Places, func(p model.Place) bool { return len(p.Hosts) > 0 }) {
		a.Clusters, a.Hops = nil, nil // what nobody can ask for is not kept
	}
	return a
}

// Accepted says whether a route counts as attached: AttachedRoutes counts no others.
func Accepted(a *model.Attachment) bool {
	return slices.ContainsFunc(a.Parents, func(p report.Parent) bool {
		c := report.Find(p.Conditions, string(gatewayv1.RouteConditionAccepted))
		return c != nil && c.Status == report.True
	})
}

// routeHosts are a route's hostnames in lower case, sorted; "*" for none.
func routeHosts(route *gatewayv1.HTTPRoute) []string {
	if len(route.Spec.Hostnames) == 0 {
		return []string{"*"}
	}
	out := make([]string, 0, len(route.Spec.Hostnames))
	for _, h := range route.Spec.Hostnames {
		out = append(out, strings.ToLower(string(h)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// parentFinder follows a route's parentRefs.
type parentFinder struct {
	r        store.Reader
	cfg      Config
	gateways func(key string) (*model.Gateway, bool)
	route    *gatewayv1.HTTPRoute
	out      *model.Attachment
}

func (p *parentFinder) find() {
	if p.route.Spec.UseDefaultGateways == gatewayv1.GatewayDefaultScopeAll {
		p.tell(report.Warning, "spec.useDefaultGateways", "default Gateways are not supported", "name the Gateway in parentRefs")
	}
	if len(p.route.Spec.ParentRefs) == 0 {
		p.tell(report.Warning, "spec.parentRefs", "the route has no parent and takes no traffic", "name a Gateway in parentRefs")
	}
	for i := range p.route.Spec.ParentRefs {
		p.parent(i)
	}
	slices.SortFunc(p.out.Places, func(a, b model.Place) int {
		if c := strings.Compare(a.Gateway, b.Gateway); c != 0 {
			return c
		}
		return strings.Compare(a.Listener, b.Listener)
	})
}

func (p *parentFinder) parent(i int) {
	spec := &p.route.Spec.ParentRefs[i]
	field := fmt.Sprintf("spec.parentRefs[%d]", i)
	ref := report.ParentRef{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: p.route.Namespace, Name: string(spec.Name)}
	if spec.Group != nil {
		ref.Group = string(*spec.Group)
	}
	if spec.Kind != nil {
		ref.Kind = string(*spec.Kind)
	}
	if spec.Namespace != nil {
		ref.Namespace = string(*spec.Namespace)
	}
	if spec.SectionName != nil {
		ref.SectionName = string(*spec.SectionName)
	}
	if spec.Port != nil {
		ref.Port = *spec.Port
	}
	if ref.Group != gatewayv1.GroupName || ref.Kind != "Gateway" {
		p.tell(report.Warning, field, fmt.Sprintf("parents of kind %s (%s) are not supported", ref.Kind, ref.Group), "name a Gateway")
		return
	}
	key := ref.Namespace + "/" + ref.Name
	gw, mine := p.gateways(key)
	if !mine {
		if _, exists := store.Gateways.Get(p.r, key); !exists {
			severity := report.Error
			if !p.cfg.AnyClass { // among other controllers it may be theirs, and come later
				severity = report.Warning
			}
			p.tell(severity, field, fmt.Sprintf("Gateway %s does not exist", key), "")
		}
		return
	}
	places, refused := p.places(gw, ref)
	if refused != nil {
		p.tell(report.Error, field, refused.Message, "")
		p.out.Parents = append(p.out.Parents, report.Parent{Ref: ref, Conditions: []report.Condition{*refused}})
		return
	}
	for _, place := range places {
		if !slices.ContainsFunc(p.out.Places, func(o model.Place) bool { return o.Gateway == place.Gateway && o.Listener == place.Listener }) {
			p.out.Places = append(p.out.Places, place)
		}
	}
	if ref.SectionName != "" && places[0].Chain != "" && len(places[0].Hosts) == 0 {
		p.tell(report.Warning, field, fmt.Sprintf("listener %s takes no request for the route's hostnames: they belong to listeners with more specific hostnames", ref.SectionName), "")
	}
	accepted := trueCondition(gatewayv1.RouteConditionAccepted, gatewayv1.RouteReasonAccepted)
	p.out.Parents = append(p.out.Parents, report.Parent{Ref: ref, Conditions: []report.Condition{accepted}})
}

// places are where a route is attached to a Gateway, or the condition that says why nowhere: the reason that came
// nearest to being accepted.
func (p *parentFinder) places(gw *model.Gateway, ref report.ParentRef) (out []model.Place, refused *report.Condition) {
	selected, allowed := 0, 0
	for _, l := range gw.Listeners {
		if ref.SectionName != "" && ref.SectionName != l.Name || ref.Port != 0 && ref.Port != int32(l.Port) {
			continue
		}
		selected++
		if !p.allowed(gw, l) {
			continue
		}
		allowed++
		if place, ok := p.place(gw, l); ok {
			out = append(out, place)
		}
	}
	refuse := func(reason gatewayv1.RouteConditionReason, message string) ([]model.Place, *report.Condition) {
		c := falseCondition(gatewayv1.RouteConditionAccepted, reason, message)
		return nil, &c
	}
	switch {
	case selected == 0 && ref.Port != 0 && ref.SectionName != "":
		return refuse(gatewayv1.RouteReasonNoMatchingParent, fmt.Sprintf("Gateway %s has no listener %s with port %d", gw.Ref.Key(), ref.SectionName, ref.Port))
	case selected == 0 && ref.Port != 0:
		return refuse(gatewayv1.RouteReasonNoMatchingParent, fmt.Sprintf("Gateway %s has no listener with port %d", gw.Ref.Key(), ref.Port))
	case selected == 0:
		return refuse(gatewayv1.RouteReasonNoMatchingParent, fmt.Sprintf("Gateway %s has no listener %s", gw.Ref.Key(), ref.SectionName))
	case allowed == 0:
		return refuse(gatewayv1.RouteReasonNotAllowedByListeners, fmt.Sprintf("no listener of Gateway %s allows HTTPRoutes of namespace %s (see its allowedRoutes)", gw.Ref.Key(), p.route.Namespace))
	case len(out) == 0:
		return refuse(gatewayv1.RouteReasonNoMatchingListenerHostname, fmt.Sprintf("no listener of Gateway %s has a hostname that goes with %s", gw.Ref.Key(), strings.Join(p.out.Hostnames, ", ")))
	}
	return out, nil
}

// allowed says whether a listener's allowedRoutes take the route.
func (p *parentFinder) allowed(gw *model.Gateway, l *model.Listener) bool {
	if !slices.Contains(l.Allowed.Kinds, report.Ref{Group: gatewayv1.GroupName, Kind: "HTTPRoute"}) {
		return false
	}
	switch gatewayv1.FromNamespaces(l.Allowed.From) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSame:
		return p.route.Namespace == gw.Ref.Namespace
	case gatewayv1.NamespacesFromSelector:
		selector, err := labels.Parse(l.Allowed.Selector)
		return err == nil && selector.Matches(namespaceLabels(p.r, p.route.Namespace))
	}
	return false
}

// namespaceLabels are a namespace's labels with the name label that every cluster adds, so that a selector by name
// works where no Namespace object was written.
func namespaceLabels(r store.Reader, name string) labels.Set {
	set := labels.Set{corev1.LabelMetadataName: name}
	if ns, ok := store.Namespaces.Get(r, name); ok {
		for k, v := range ns.Labels {
			set[k] = v
		}
	}
	return set
}

// place intersects the route's hostnames with a listener's. Hosts that belong to a more specific listener are left to
// it; a listener without a chain has no hosts but counts as attached.
func (p *parentFinder) place(gw *model.Gateway, l *model.Listener) (model.Place, bool) {
	place := model.Place{Gateway: gw.Ref.Key(), Listener: l.Name, Chain: l.Chain, ListenerHost: l.Hostname}
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

func (p *parentFinder) tell(severity report.Severity, field, problem, fix string) {
	p.out.Findings = append(p.out.Findings, report.Finding{Severity: severity, Owner: p.out.Route, Field: field, Problem: problem, Fix: fix})
}
