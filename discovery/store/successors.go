package store

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// If a target of an AccessPolicy disappears, it may have been renamed. The policy must then still
// apply to the object or section that takes its place, its successor. Each successor becomes a
// former target (AccessPolicySpec.Former). Successors are:
//   - of a listener or a rule: new listeners and rules of the same object, until the target exists
//     again. A listener that moves into a ListenerSet is a successor, too. If a new rule has no
//     name, the successor is the whole route, because only a name identifies a rule;
//   - of an object: objects of the same kind and namespace that take over its requests (takesOver).
//     For a new route, it suffices that it may get one of the requests, because its matches may
//     have been edited together with its name.
//
// The lost target itself also becomes a former target, so that it is still known after a restart.

// maxFormer bounds a policy's former targets. Beyond the bound, targets that do not exist are
// dropped.
const maxFormer = 64

type succession struct {
	before, now *View
	gone        map[report.Ref]Object // lost targets of earlier batches; succession adds to them
	added       map[string][]v1alpha1.FormerTarget
}

// successors returns the former targets that a batch of changes adds, by policy ID.
func (s *Store) successors(before, now *View, changes []Change, recalled bool) map[string][]v1alpha1.FormerTarget {
	if before.trees[[2]string{AccessPolicies.Kind(), ByID}].Len() == 0 {
		return nil
	}
	for ref := range s.gone {
		if now.Rows(AccessPolicies.Kind(), ByTarget, TargetKey(ref.Kind, ref.Namespace, ref.Name)).Len() == 0 {
			delete(s.gone, ref)
		}
	}
	x := &succession{before: before, now: now, gone: s.gone, added: map[string][]v1alpha1.FormerTarget{}}
	refs := map[report.Ref]bool{}
	for _, c := range changes {
		for _, ref := range changedTargets(before, now, c) {
			refs[ref] = true
		}
	}
	if recalled {
		for _, p := range AccessPolicies.All(before) {
			for _, t := range formerOf(p) {
				refs[refOfTarget(t)] = true
			}
		}
	}
	ordered := slices.SortedFunc(maps.Keys(refs), report.Ref.Compare)
	for _, ref := range ordered {
		x.lose(ref)
	}
	for _, ref := range ordered {
		x.create(ref)
	}
	return x.added
}

// changedTargets returns the possible targets of policies whose sections a change may affect.
func changedTargets(before, now *View, c Change) (refs []report.Ref) {
	switch c.Table {
	case Gateways.Kind(), HTTPRoutes.Kind(), GRPCRoutes.Kind(), InferencePools.Kind():
		namespace, name := ParseID(c.ID)
		return []report.Ref{refOfTarget(v1alpha1.FormerTarget{Namespace: namespace,
			AccessTarget: v1alpha1.AccessTarget{Kind: c.Table, Name: name}})}
	case ListenerSets.Kind():
		for _, view := range []*View{before, now} {
			if set, ok := ListenerSets.Get(view, c.ID); ok {
				for _, key := range listenerSetParent(set) {
					refs = append(refs, RefOf(Gateways, key))
				}
			}
		}
	}
	return refs
}

func refOfTarget(t v1alpha1.FormerTarget) report.Ref {
	group := Gateways.Group()
	if t.Kind == InferencePools.Kind() {
		group = InferencePools.Group()
	}
	return report.Ref{Group: group, Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}
}

func formerOf(p *v1alpha1.AccessPolicy) []v1alpha1.FormerTarget {
	out := slices.Clone(p.Spec.Former)
	for _, t := range p.Spec.TargetRefs {
		t.Group = ""
		if f := (v1alpha1.FormerTarget{Namespace: p.Namespace, AccessTarget: t}); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func (x *succession) add(p *v1alpha1.AccessPolicy, targets ...v1alpha1.FormerTarget) {
	for _, t := range targets {
		if list := x.added[ID(p)]; !slices.Contains(list, t) {
			x.added[ID(p)] = append(list, t)
		}
	}
}

// lost calls f for each policy with a target at ref that this batch or an earlier one removed.
func (x *succession) lost(ref report.Ref, f func(*v1alpha1.AccessPolicy, v1alpha1.FormerTarget)) {
	key := TargetKey(ref.Kind, ref.Namespace, ref.Name)
	for _, p := range AccessPolicies.By(x.before, ByTarget, key) {
		for _, t := range formerOf(p) {
			if refOfTarget(t) == ref && !TargetExists(x.now, t) &&
				(TargetExists(x.before, t) || slices.Contains(p.Spec.Former, t)) {
				f(p, t)
			}
		}
	}
}

func (x *succession) lose(ref report.Ref) {
	key := TargetKey(ref.Kind, ref.Namespace, ref.Name)
	if x.before.Rows(AccessPolicies.Kind(), ByTarget, key).Len() == 0 {
		return
	}
	sections, exists := allSections(x.now, ref)
	var known []string
	before := targetObject(x.before, ref)
	if before != nil {
		known, _ = allSections(x.before, ref)
	}
	var others []Object
	x.lost(ref, func(p *v1alpha1.AccessPolicy, t v1alpha1.FormerTarget) {
		x.add(p, t)
		if exists {
			for _, section := range sections {
				if !slices.Contains(known, section) {
					x.add(p, withSection(t, section))
				}
			}
			if unnamedRuleIsNew(before, targetObject(x.now, ref)) {
				x.add(p, withSection(t, ""))
			}
			return
		}
		if before == nil {
			return
		}
		x.gone[ref] = before
		if others == nil {
			others = x.alike(ref, before)
		}
		for _, o := range others {
			x.add(p, x.inPlace(t, o))
		}
	})
}

// create adds a new object to a policy's former targets, if the object takes over the requests of a
// target that an earlier batch removed.
func (x *succession) create(ref report.Ref) {
	o := targetObject(x.now, ref)
	if o == nil || targetObject(x.before, ref) != nil {
		return
	}
	for _, lost := range slices.SortedFunc(maps.Keys(x.gone), report.Ref.Compare) {
		if lost != ref && lost.Kind == ref.Kind && lost.Namespace == ref.Namespace && takesOver(o, x.gone[lost], true) {
			x.lost(lost, func(p *v1alpha1.AccessPolicy, t v1alpha1.FormerTarget) { x.add(p, x.inPlace(t, o)) })
		}
	}
}

// alike returns the objects that take over the requests of a removed object: new objects and, for
// routes, also older ones, which may have lost requests to the removed route.
func (x *succession) alike(ref report.Ref, old Object) (list []Object) {
	index, keys := ByNamespace, []string{ref.Namespace}
	isRoute := ref.Kind == HTTPRoutes.Kind() || ref.Kind == GRPCRoutes.Kind()
	if isRoute {
		index, keys = ByParent, gatewayParents(ref.Namespace, served(old).parents)
	}
	for _, key := range keys {
		for _, row := range x.now.Rows(ref.Kind, index, key).list {
			o := targetTable(ref.Kind).Unpack(row)
			r := report.Ref{Group: ref.Group, Kind: ref.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
			fresh := targetObject(x.before, r) == nil
			if r != ref && r.Namespace == ref.Namespace && (isRoute || fresh) && takesOver(o, old, fresh) {
				list = append(list, o)
			}
		}
	}
	return list
}

// inPlace returns the target in object o that replaces t: the section with the same name or,
// without one, the whole object.
func (x *succession) inPlace(t v1alpha1.FormerTarget, o Object) v1alpha1.FormerTarget {
	t.Namespace, t.Name = o.GetNamespace(), o.GetName()
	if !TargetExists(x.now, t) {
		t.SectionName = ""
	}
	return t
}

func withSection(t v1alpha1.FormerTarget, section string) v1alpha1.FormerTarget {
	t.SectionName = section
	return t
}

// TargetExists reports whether a target's object exists and, if the target names a section, the
// section.
func TargetExists(r Reader, t v1alpha1.FormerTarget) bool {
	sections, exists := allSections(r, refOfTarget(t))
	return exists && (t.SectionName == "" || slices.Contains(sections, t.SectionName))
}

// allSections is like Sections, but includes the listeners of a Gateway's ListenerSets, with the
// names of model.ListenerKey.
func allSections(r Reader, target report.Ref) (names []string, exists bool) {
	names, exists = Sections(r, target)
	if exists && target.Kind == Gateways.Kind() {
		for _, set := range ListenerSets.By(r, ByParent, target.Key()) {
			for _, l := range set.Spec.Listeners {
				names = append(names, objectid.Join(ID(set), string(l.Name)))
			}
		}
	}
	return names, exists
}

// targetTable returns the table of a kind that AccessPolicies can target, or nil for another kind.
func targetTable(kind string) Kind {
	for _, k := range []Kind{Gateways, HTTPRoutes, GRPCRoutes, InferencePools} {
		if k.Kind() == kind {
			return k
		}
	}
	return nil
}

func targetObject(r Reader, ref report.Ref) Object {
	if k := targetTable(ref.Kind); k != nil {
		if o, ok := k.Object(r, ref.Key()); ok {
			return o
		}
	}
	return nil
}

type requests struct {
	parents   []gatewayv1.ParentReference
	hostnames []gatewayv1.Hostname
	rules     []ruleOf
}

type ruleOf struct {
	named   bool
	matches []any
	whole   any
}

func newRuleOf[M any](name *gatewayv1.SectionName, matches []M, whole any) ruleOf {
	rule := ruleOf{named: name != nil, whole: whole}
	for _, m := range matches {
		rule.matches = append(rule.matches, m)
	}
	if len(matches) == 0 {
		rule.matches = []any{nil} // matches every request
	}
	return rule
}

func served(o Object) (out requests) {
	switch r := o.(type) {
	case *gatewayv1.HTTPRoute:
		out.parents, out.hostnames = r.Spec.ParentRefs, r.Spec.Hostnames
		for _, rule := range r.Spec.Rules {
			out.rules = append(out.rules, newRuleOf(rule.Name, rule.Matches, rule))
		}
	case *gatewayv1.GRPCRoute:
		out.parents, out.hostnames = r.Spec.ParentRefs, r.Spec.Hostnames
		for _, rule := range r.Spec.Rules {
			out.rules = append(out.rules, newRuleOf(rule.Name, rule.Matches, rule))
		}
	}
	return out
}

func unnamedRuleIsNew(before, now Object) bool {
	old := served(before).rules
	return slices.ContainsFunc(served(now).rules, func(r ruleOf) bool {
		return !r.named && !slices.ContainsFunc(old, func(o ruleOf) bool {
			return !o.named && equality.Semantic.DeepEqual(o.whole, r.whole)
		})
	})
}

// takesOver reports whether requests that old served may now reach o. Gateways must have a common
// listener, and InferencePools equal selectors. Routes must have a common parent, hostname and
// match. If o is fresh, overlapping hostnames and paths are enough.
func takesOver(o, old Object, fresh bool) bool {
	switch o := o.(type) {
	case *gatewayv1.Gateway:
		old := old.(*gatewayv1.Gateway)
		return o.Spec.GatewayClassName == old.Spec.GatewayClassName &&
			common(o.Spec.Listeners, old.Spec.Listeners, func(a, b gatewayv1.Listener) bool {
				return a.Port == b.Port && a.Protocol == b.Protocol && reflect.DeepEqual(a.Hostname, b.Hostname)
			})
	case *inferencev1.InferencePool:
		return equality.Semantic.DeepEqual(o.Spec.Selector, old.(*inferencev1.InferencePool).Spec.Selector)
	}
	a, b := served(o), served(old)
	sameHost, sameMatch := func(a, b gatewayv1.Hostname) bool { return a == b }, equality.Semantic.DeepEqual
	hosts := len(a.hostnames)+len(b.hostnames) == 0
	if fresh {
		sameHost, sameMatch = hostsMeet, pathsMeet
		hosts = len(a.hostnames) == 0 || len(b.hostnames) == 0
	}
	return common(a.parents, b.parents, sameParent) && (hosts || common(a.hostnames, b.hostnames, sameHost)) &&
		common(a.rules, b.rules, func(a, b ruleOf) bool {
			return common(a.matches, b.matches, func(a, b any) bool { return sameMatch(a, b) })
		})
}

// hostsMeet reports whether one host may match both hostnames, which may be wildcards.
func hostsMeet(a, b gatewayv1.Hostname) bool {
	within := func(host, wildcard string) bool {
		suffix, ok := strings.CutPrefix(wildcard, "*")
		return ok && strings.HasSuffix(host, suffix)
	}
	x, y := strings.ToLower(string(a)), strings.ToLower(string(b))
	return x == y || within(x, y) || within(y, x)
}

// pathsMeet reports whether one path may match both matches of routes. It assumes that regular
// expressions, and the other conditions of matches, overlap.
func pathsMeet(a, b any) bool {
	x, y := pathOf(a), pathOf(b)
	return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
}

// pathOf returns the prefix of all paths that a match accepts; "": any path.
func pathOf(match any) string {
	m, ok := match.(gatewayv1.HTTPRouteMatch)
	if !ok || m.Path == nil || m.Path.Value == nil ||
		m.Path.Type != nil && *m.Path.Type == gatewayv1.PathMatchRegularExpression {
		return ""
	}
	return strings.TrimSuffix(*m.Path.Value, "/")
}

func sameParent(a, b gatewayv1.ParentReference) bool {
	section := func(p gatewayv1.ParentReference) gatewayv1.SectionName {
		if p.SectionName == nil {
			return ""
		}
		return *p.SectionName
	}
	namespace := func(p gatewayv1.ParentReference) string {
		if p.Namespace == nil {
			return metav1.NamespaceNone
		}
		return string(*p.Namespace)
	}
	return a.Name == b.Name && namespace(a) == namespace(b) && section(a) == section(b)
}

func common[T any](a, b []T, same func(a, b T) bool) bool {
	return slices.ContainsFunc(a, func(x T) bool {
		return slices.ContainsFunc(b, func(y T) bool { return same(x, y) })
	})
}
