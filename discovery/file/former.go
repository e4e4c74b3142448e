package file

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// recall names the restored AccessPolicies and their targets to the store, so that an edit while no
// process ran opens no former target. Of Gateways and InferencePools all are named: a new one may
// replace a target.
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

// withFormer adds the policies whose former targets have changed to the objects to persist.
func (r *Reader) withFormer(dirty []report.Ref) []report.Ref {
	if r.cfg.Former == nil {
		return dirty
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for ref := range r.policies {
		former := r.cfg.Former(ref.Key())
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
