package file

import (
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// recall passes the AccessPolicies that the previous process had, and their targets, to
// Store.Recall. If a policy was edited while no process ran, its former targets then stay closed.
// recall passes all Gateways, ListenerSets and InferencePools, because a new one may replace a
// target.
func (r *Reader) recall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	targets := map[report.Ref]bool{}
	var ops []store.Op
	for ref, k := range r.kept {
		if k.kind.closed == nil {
			continue
		}
		p, ok := k.object().(*v1alpha1.AccessPolicy)
		if !ok {
			continue
		}
		for _, t := range p.Spec.TargetRefs {
			targets[report.Ref{Kind: t.Kind, Namespace: p.Namespace, Name: t.Name}] = true
		}
		before := *p
		before.Spec.Former = r.former[ref]
		ops = append(ops, store.AccessPolicies.Put(&before))
	}
	for ref, list := range r.former {
		if _, kept := r.kept[ref]; kept {
			continue
		}
		var closed []v1alpha1.AccessTarget
		for _, t := range list {
			closed = append(closed, t.AccessTarget)
			targets[report.Ref{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name}] = true
		}
		p := closedPolicy(ref.Namespace, ref.Name, nil, v1alpha1.ClosedInvalid)
		ops = append(ops, store.AccessPolicies.PutObject(withTargets(p, closed)))
	}
	if len(ops) == 0 {
		return
	}
	for ref, k := range r.kept {
		switch ref.Kind {
		case store.Gateways.Kind(), store.ListenerSets.Kind(), store.InferencePools.Kind():
			ops = append(ops, k.put(ref.Key()))
		case store.HTTPRoutes.Kind(), store.GRPCRoutes.Kind():
			if targets[report.Ref{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}] {
				ops = append(ops, k.put(ref.Key()))
			}
		}
	}
	r.cfg.Store.Recall(ops...)
}

// withFormer returns dirty, the objects to persist, and the policies whose former targets have
// changed. The last form of a closed policy is not persisted. So its present targets are persisted
// as former targets.
func (r *Reader) withFormer(dirty []report.Ref) []report.Ref {
	if r.cfg.Former == nil {
		return dirty
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := map[report.Ref][]v1alpha1.FormerTarget{}
	for ref := range r.policies {
		now[ref] = r.cfg.Former(ref.Key())
	}
	for ref, o := range r.closed {
		if strings.Contains(ref.Name, "#") || r.policies[ref] {
			continue
		}
		now[ref] = r.cfg.Former(ref.Key())
		for _, t := range withoutGroups(o.(*v1alpha1.AccessPolicy).Spec.TargetRefs) {
			if f := (v1alpha1.FormerTarget{Namespace: ref.Namespace, AccessTarget: t}); t.Name != "" &&
				!slices.Contains(now[ref], f) {
				now[ref] = append(slices.Clip(now[ref]), f)
			}
		}
	}
	for ref := range r.former {
		if _, there := now[ref]; !there { // the policy is gone
			now[ref] = nil
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(now), report.Ref.Compare) {
		former := now[ref]
		if slices.Equal(former, r.former[ref]) {
			continue
		}
		if r.former[ref] = former; len(former) == 0 {
			delete(r.former, ref)
		}
		if !slices.Contains(dirty, ref) {
			dirty = append(dirty, ref)
		}
	}
	return dirty
}
