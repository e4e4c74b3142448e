package access

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Route is a route of a virtual host.
type Route struct {
	Gateway  string // "namespace/name"
	Listener string // model.ListenerKey
	Route    report.Ref
	Rule     string            // "" if the rule has no name
	Pools    []objectid.Target // all pools that the requests may reach
}

// Above returns, sorted, the policies ("namespace/name") that target the route, its Gateway,
// listener, rule or pools. byModel reports whether one of them decides by the model in the request.
func Above(r store.Reader, route Route) (names []string, byModel bool) {
	add := func(p *v1alpha1.AccessPolicy) {
		if p != nil && !slices.Contains(names, store.ID(p)) {
			names, byModel = append(names, store.ID(p)), byModel || p.Spec.ByModel
		}
	}
	gateway := store.RefOf(store.Gateways, route.Gateway)
	for _, section := range []string{"", route.Listener} { // a ListenerSet's key equals no sectionName
		if p := winner(r, gateway, section); p != nil && !excepts(p, route.Route) {
			add(p)
		}
	}
	add(winner(r, route.Route, ""))
	if route.Rule != "" {
		add(winner(r, route.Route, route.Rule))
	}
	for _, pool := range slices.SortedFunc(slices.Values(route.Pools), objectid.Target.Compare) {
		add(winner(r, store.RefOf(store.InferencePools, pool.Pool.String()), ""))
	}
	return names, byModel
}

// excepts reports whether a policy for Gateways exempts a route. Validation rejects a policy that
// exempts routes and also has other targets.
func excepts(p *v1alpha1.AccessPolicy, route report.Ref) bool {
	if slices.ContainsFunc(p.Spec.TargetRefs, func(t v1alpha1.AccessTarget) bool {
		return t.Kind != store.Gateways.Kind()
	}) {
		return false
	}
	return slices.ContainsFunc(p.Spec.Except, func(e v1alpha1.AccessException) bool {
		return cmp.Or(e.Kind, store.HTTPRoutes.Kind()) == route.Kind && e.Name == route.Name &&
			cmp.Or(e.Namespace, p.Namespace) == route.Namespace
	})
}

// ExactUsage reports whether one of the named policies requires that streamed responses report
// their token usage.
func ExactUsage(r store.Reader, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		p, ok := store.AccessPolicies.Get(r, name)
		return ok && p.Spec.Usage == v1alpha1.UsageExact
	})
}

// Watches reports whether one of the named policies ends requests in flight once it would deny
// them.
func Watches(r store.Reader, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		p, ok := store.AccessPolicies.Get(r, name)
		return ok && p.Spec.Revoke == v1alpha1.RevokeImmediately
	})
}

// GatesPools reports whether any policy targets an InferencePool. Otherwise Above does not need
// Route.Pools.
func GatesPools(r store.Reader) bool {
	return r.Rows(store.AccessPolicies.Kind(), store.ByTargetKind, store.InferencePools.Kind()).Len() > 0
}

// Ungated returns "namespace/name" of the policy that forbids streams at a listener, or "".
func Ungated(r store.Reader, gateway, listener string) string {
	ref := store.RefOf(store.Gateways, gateway)
	for _, section := range []string{"", listener} {
		if p := winner(r, ref, section); p != nil && p.Spec.Ungated != v1alpha1.UngatedAllow {
			return store.ID(p)
		}
	}
	return ""
}

// winner returns the policy in force at a target or its section, or nil. The section "" means the
// whole object.
func winner(r store.Reader, target report.Ref, section string) (best *v1alpha1.AccessPolicy) {
	names := []string{target.Name}
	if r.Rows(store.AccessPolicies.Kind(), store.ByTargetKind, store.AnyTarget).Len() > 0 {
		names = append(names, "") // a closed policy for all objects of the kind
	}
	for _, name := range names {
		key := store.TargetKey(target.Kind, target.Namespace, name)
		for _, p := range store.AccessPolicies.By(r, store.ByTarget, key) {
			same := func(t v1alpha1.AccessTarget) bool {
				return t.Kind == target.Kind && t.Name == name && t.SectionName == section
			}
			targets := p.Namespace == target.Namespace && slices.ContainsFunc(p.Spec.TargetRefs, same) ||
				slices.ContainsFunc(p.Spec.Former, func(t v1alpha1.FormerTarget) bool {
					return t.Namespace == target.Namespace && same(t.AccessTarget)
				}) && store.Astray(r, p)
			if targets && (best == nil || precedes(p, best)) {
				best = p
			}
		}
	}
	return best
}

// precedes orders policies by age, then by name (GEP-713, conflict resolution). A closed policy is
// last, so that a mistake in a new policy does not override a valid policy.
func precedes(a, b *v1alpha1.AccessPolicy) bool {
	if closed := a.Spec.Closed != 0; closed != (b.Spec.Closed != 0) {
		return !closed
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name)) < 0
}

// Selector returns which APIKeys a policy permits, and from which namespaces. With an error, the
// policy permits no key.
func Selector(p *v1alpha1.AccessPolicy) (selector labels.Selector, namespaces []string, err error) {
	if p.Spec.APIKeys == nil {
		return labels.Nothing(), nil, nil
	}
	if len(nulls(p, "apiKeys")) > 0 {
		return labels.Nothing(), nil, errNull
	}
	namespaces = p.Spec.APIKeys.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{p.Namespace}
	}
	if p.Spec.APIKeys.Selector == nil {
		return labels.Everything(), namespaces, nil
	}
	selector, err = metav1.LabelSelectorAsSelector(p.Spec.APIKeys.Selector)
	if err != nil {
		return labels.Nothing(), nil, err
	}
	return selector, namespaces, nil
}

// nulls returns the fields in a part of a policy that are null, although without them the policy
// would permit more. Such a part permits nothing.
func nulls(p *v1alpha1.AccessPolicy, part string) (fields []string) {
	for _, field := range p.Spec.Nulls {
		if strings.HasPrefix(field, part+".") {
			fields = append(fields, "spec."+field)
		}
	}
	return fields
}

var errNull = errors.New("it is null")

// nullFix is the fix for a field in nulls.
const nullFix = "write its value, or remove the field"
