package store

import (
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// withFormer sets AccessPolicySpec.Former of policies in a batch whose other operations have been
// applied. It adds operations for other policies whose targets exist now.
func (s *Store) withFormer(ops []Op) []Op {
	now := &View{trees: s.now}
	renamed := map[string]*v1alpha1.AccessPolicy{} // removed policies by name: the namespace may be mistyped
	for _, op := range ops {
		if old, ok := AccessPolicies.Get(now, op.id); ok && op.obj == nil {
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
		old, ok := AccessPolicies.Get(now, op.id)
		if !ok {
			old = renamed[p.Name]
		}
		former := formerTargets(old, p)
		if len(former) > 0 && !Astray(now, p) {
			former = nil
		}
		if len(former)+len(p.Spec.Former) > 0 {
			changed := *p
			changed.Spec.Former = former
			out[i].obj = &changed
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.astray)) {
		if p, ok := AccessPolicies.Get(now, id); ok && !seen[id] && !Astray(now, p) {
			changed := *p
			changed.Spec.Former = nil
			out = append(out, AccessPolicies.Put(&changed))
		}
	}
	for _, op := range out {
		if p, ok := op.obj.(*v1alpha1.AccessPolicy); ok && len(p.Spec.Former) > 0 {
			s.astray[op.id] = true
		} else {
			delete(s.astray, op.id)
		}
	}
	return out
}

func formerTargets(old, p *v1alpha1.AccessPolicy) (former []v1alpha1.FormerTarget) {
	if p.Spec.Closed != 0 {
		return nil
	}
	if former = slices.Clone(p.Spec.Former); old == nil { // restored
		return former
	}
	for _, f := range old.Spec.Former {
		if !slices.Contains(former, f) {
			former = append(former, f)
		}
	}
	for _, t := range old.Spec.TargetRefs {
		t.Group = ""
		if f := (v1alpha1.FormerTarget{Namespace: old.Namespace, AccessTarget: t}); t.Name != "" &&
			!slices.Contains(former, f) {
			former = append(former, f)
		}
	}
	return slices.DeleteFunc(former, func(f v1alpha1.FormerTarget) bool {
		return f.Namespace == p.Namespace && slices.ContainsFunc(p.Spec.TargetRefs, func(t v1alpha1.AccessTarget) bool {
			return t.Kind == f.Kind && t.Name == f.Name && t.SectionName == f.SectionName
		})
	})
}

// Astray reports whether a target of a policy does not exist.
func Astray(r Reader, p *v1alpha1.AccessPolicy) bool {
	return slices.ContainsFunc(p.Spec.TargetRefs, func(t v1alpha1.AccessTarget) bool {
		sections, exists := Sections(r, report.Ref{Kind: t.Kind, Namespace: p.Namespace, Name: t.Name})
		return !exists || t.SectionName != "" && !slices.Contains(sections, t.SectionName)
	})
}

// Sections returns the listeners of a Gateway, or the named rules of a route, and whether the
// object exists. It knows the kinds that an AccessPolicy may target.
func Sections(r Reader, target report.Ref) (names []string, exists bool) {
	rule := func(name *gatewayv1.SectionName) {
		if name != nil {
			names = append(names, string(*name))
		}
	}
	switch key := target.Key(); target.Kind {
	case Gateways.Kind():
		o, ok := Gateways.Get(r, key)
		if !ok {
			return nil, false
		}
		for _, l := range o.Spec.Listeners {
			names = append(names, string(l.Name))
		}
	case HTTPRoutes.Kind():
		o, ok := HTTPRoutes.Get(r, key)
		if !ok {
			return nil, false
		}
		for _, spec := range o.Spec.Rules {
			rule(spec.Name)
		}
	case GRPCRoutes.Kind():
		o, ok := GRPCRoutes.Get(r, key)
		if !ok {
			return nil, false
		}
		for _, spec := range o.Spec.Rules {
			rule(spec.Name)
		}
	case InferencePools.Kind():
		_, ok := InferencePools.Get(r, key)
		return nil, ok
	default:
		return nil, false
	}
	return names, true
}
