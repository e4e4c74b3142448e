package store

import (
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// withFormer returns ops, the operations on AccessPolicies in a batch, with AccessPolicySpec.Former
// set. The batch's other operations (changes) must already be applied. It adds operations for other
// policies whose targets now exist, or were lost. before is the last revision, or the objects from
// Recall.
func (s *Store) withFormer(before *View, changes []Change, ops []Op) []Op {
	now, recalled := &View{trees: s.now}, s.recalled != nil
	added := s.successors(before, now, changes, recalled)
	renamed := map[string]*v1alpha1.AccessPolicy{} // removed policies by name; a user may correct the namespace
	for _, op := range ops {
		if old, ok := AccessPolicies.Get(before, op.id); ok && op.obj == nil {
			renamed[old.Name] = old
		}
	}
	out, seen := slices.Clone(ops), map[string]bool{}
	for i, op := range ops {
		seen[op.id] = true
		p, ok := op.obj.(*v1alpha1.AccessPolicy)
		if !ok {
			continue
		}
		old, ok := AccessPolicies.Get(before, op.id)
		if !ok {
			old = renamed[p.Name]
		}
		var more []v1alpha1.FormerTarget
		if old != nil {
			more = added[ID(old)]
		}
		former := bounded(now, formerTargets(before, now, old, p, more))
		if len(former) == 0 || !Astray(now, p) {
			former = nil
		}
		if len(former)+len(p.Spec.Former) > 0 {
			changed := *p
			changed.Spec.Former = former
			out[i].obj = &changed
		}
	}
	others := maps.Clone(s.astray)
	for id := range added {
		others[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(others)) {
		p, ok := AccessPolicies.Get(now, id)
		if !ok || seen[id] {
			continue
		}
		former := bounded(now, merged(p.Spec.Former, added[id]))
		if len(former) == 0 || !Astray(now, p) {
			former = nil
		}
		if !slices.Equal(former, p.Spec.Former) {
			changed := *p
			changed.Spec.Former = former
			out = append(out, AccessPolicies.Put(&changed))
		}
	}
	s.noteAstray(out)
	return out
}

func (s *Store) noteAstray(ops []Op) {
	for _, op := range ops {
		if p, ok := op.obj.(*v1alpha1.AccessPolicy); ok && len(p.Spec.Former) > 0 {
			s.astray[op.id] = true
		} else {
			delete(s.astray, op.id)
		}
	}
	if len(s.astray) == 0 {
		clear(s.gone)
	}
}

// formerTargets returns the former targets of a policy p that replaces old, which may be nil. added
// are the former targets that the batch adds to old.
func formerTargets(before, now *View, old, p *v1alpha1.AccessPolicy, added []v1alpha1.FormerTarget) (
	former []v1alpha1.FormerTarget) {
	if old == nil {
		old = &v1alpha1.AccessPolicy{}
		former = restored(now, p)
	}
	former = merged(former, old.Spec.Former)
	for _, t := range old.Spec.TargetRefs {
		t.Group = ""
		f := v1alpha1.FormerTarget{Namespace: old.Namespace, AccessTarget: t}
		if t.Name != "" && (TargetExists(before, f) || TargetExists(now, f)) {
			former = merged(former, []v1alpha1.FormerTarget{f})
		}
	}
	former = merged(former, added)
	if p.Spec.Closed != 0 && old.Spec.Closed == 0 { // a newly closed policy denies all that may be a target
		return nil
	}
	return slices.DeleteFunc(former, func(f v1alpha1.FormerTarget) bool {
		return f.Namespace == p.Namespace && TargetExists(now, f) &&
			slices.ContainsFunc(p.Spec.TargetRefs, func(t v1alpha1.AccessTarget) bool {
				return t.Kind == f.Kind && t.Name == f.Name && t.SectionName == f.SectionName
			})
	})
}

// restored returns the former targets that an earlier process saved in a policy. If a target's
// section was lost while no process ran, its new name is unknown. The whole object then becomes a
// target.
func restored(now *View, p *v1alpha1.AccessPolicy) (former []v1alpha1.FormerTarget) {
	for _, f := range p.Spec.Former {
		inForce := f.InForce
		f.InForce = false
		former = merged(former, []v1alpha1.FormerTarget{f})
		if inForce && !TargetExists(now, f) && targetObject(now, refOfTarget(f)) != nil {
			former = merged(former, []v1alpha1.FormerTarget{withSection(f, "")})
		}
	}
	return former
}

// GatedTargets returns the targets and former targets of a policy, for its status. When another
// process starts, RestoreFormer reads them from the status.
func GatedTargets(r Reader, p *v1alpha1.AccessPolicy) (out []v1alpha1.GatedTarget) {
	for _, t := range formerOf(p) {
		exists := TargetExists(r, t)
		if t.Namespace != p.Namespace || len(out) == maxGated || !exists && !slices.Contains(p.Spec.Former, t) {
			continue
		}
		if len(t.SectionName) > maxSection { // a listener of a ListenerSet has a longer name
			t.SectionName = ""
		}
		out = append(out, v1alpha1.GatedTarget{Kind: t.Kind, Name: t.Name, SectionName: t.SectionName,
			Missing: !exists})
	}
	return out
}

const (
	maxGated   = 80
	maxSection = 253
)

// RestoreFormer sets a policy's former targets from its status. All are in the policy's namespace,
// so that a writer of the status cannot restrict access to objects in other namespaces.
func RestoreFormer(p *v1alpha1.AccessPolicy) {
	p.Spec.Former = nil
	for _, t := range p.Status.Targets {
		p.Spec.Former = append(p.Spec.Former, v1alpha1.FormerTarget{Namespace: p.Namespace, InForce: !t.Missing,
			AccessTarget: v1alpha1.AccessTarget{Kind: t.Kind, Name: t.Name, SectionName: t.SectionName}})
	}
}

func merged(a, b []v1alpha1.FormerTarget) []v1alpha1.FormerTarget {
	out := slices.Clone(a)
	for _, f := range b {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func bounded(now *View, former []v1alpha1.FormerTarget) []v1alpha1.FormerTarget {
	if len(former) <= maxFormer {
		return former
	}
	return slices.DeleteFunc(former, func(f v1alpha1.FormerTarget) bool { return !TargetExists(now, f) })
}

// Astray reports whether a target of a policy does not exist.
func Astray(r Reader, p *v1alpha1.AccessPolicy) bool {
	return slices.ContainsFunc(p.Spec.TargetRefs, func(t v1alpha1.AccessTarget) bool {
		sections, exists := Sections(r, report.Ref{Kind: t.Kind, Namespace: p.Namespace, Name: t.Name})
		return !exists || t.SectionName != "" && !slices.Contains(sections, t.SectionName)
	})
}

// Sections returns the listeners of a Gateway, or the named rules of a route. exists is false if
// the object does not exist, or if AccessPolicies cannot target its kind.
func Sections(r Reader, target report.Ref) (names []string, exists bool) {
	rule := func(name *gatewayv1.SectionName) {
		if name != nil {
			names = append(names, string(*name))
		}
	}
	switch o := targetObject(r, target).(type) {
	case nil:
		return nil, false
	case *gatewayv1.Gateway:
		for _, l := range o.Spec.Listeners {
			names = append(names, string(l.Name))
		}
	case *gatewayv1.HTTPRoute:
		for _, spec := range o.Spec.Rules {
			rule(spec.Name)
		}
	case *gatewayv1.GRPCRoute:
		for _, spec := range o.Spec.Rules {
			rule(spec.Name)
		}
	}
	return names, true
}
