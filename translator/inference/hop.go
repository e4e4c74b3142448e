package inference

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

// Hop decides what a hop sends to: the last variants of its pool or import. False if there is no such
// pool, or none of its clusters takes traffic.
func Hop(r store.Reader, id model.HopID) (*model.Hop, bool) {
	hop := &model.Hop{Name: id}
	if !id.Import {
		obj, ok := store.InferencePools.Get(r, id.Key())
		if !ok {
			return nil, false
		}
		p, _ := basePool(r, obj)
		hop.Owners = p.Owners
		if id.Member != "" {
			policy, ok := store.PoolPolicies.Get(r, model.SubsetPolicy(id.Member))
			if !ok {
				return nil, false
			}
			text, _ := subsetSelector(policy)
			withSubset(r, p, text)
			hop.Owners = append(slices.Clip(hop.Owners), store.PoolPolicies.Ref(policy))
		}
		hop.Backends = []model.WeightedBackend{lastBackend(p, 1)}
	} else {
		imp, several, ok := importBehind(r, id)
		if !ok {
			return nil, false
		}
		hop.Owners = append(hop.Owners, imp.Ref)
		for _, m := range imp.Members {
			if m.Local && id.Member != "" {
				if obj, ok := store.InferencePools.Get(r, imp.Ref.Key()); ok {
					p, _ := basePool(r, obj)
					hop.Backends = append(hop.Backends, lastBackend(p, 1))
				}
				continue
			}
			if !m.Takes() || m.Local { // a spill leads to other clusters: the pool of the same name may be the one that spills
				continue
			}
			if m.Pool != nil {
				b := lastBackend(m.Pool, m.Share)
				if several && id.Member != "" && b.Picker != nil {
					b.Picker.Closed = true
				}
				hop.Backends = append(hop.Backends, b)
			} else {
				cluster := m.Cluster
				if several {
					cluster = cluster.As(model.LastVariant)
				}
				hop.Backends = append(hop.Backends, model.WeightedBackend{Cluster: cluster, Backend: store.TargetKey(imp.Ref.Kind, imp.Ref.Namespace, imp.Ref.Name), Weight: m.Share, MaxGateways: m.MaxGateways, Peer: m.Peer, RewriteHost: m.Hostname})
			}
		}
	}
	return hop, len(hop.Backends) > 0
}

// importBehind finds the import of a hop: by the name that a user may have written (importNamed), or one exporting cluster of it. several
// reports whether the hop is one of those to an import with several exporting clusters (together).
func importBehind(r store.Reader, id model.HopID) (imp *model.Import, several, ok bool) {
	base := func(key string) (*model.Import, bool) {
		imp, _, _, ok := baseImport(r, key)
		return imp, ok
	}
	if id.Member == "" {
		imp, ok = importNamed(r, id.Namespace, id.Name, base)
		return imp, ok && takers(imp) != nil, ok
	}
	if imp, ok = base(id.Key()); !ok {
		return nil, false, false
	}
	several = takers(imp) != nil
	imp, ok = pinnedTo(imp, id.Member)
	return imp, several, ok
}

// lastBackend sends to a pool as a hop does: asked at its own picker, spilling no further.
func lastBackend(p *model.Pool, weight uint32) model.WeightedBackend {
	b := model.WeightedBackend{Cluster: p.Last, Backend: store.TargetKey(p.Ref.Kind, p.Ref.Namespace, p.Ref.Name), Weight: weight}
	if !p.Picker.Cluster.IsZero() {
		call := p.Picker
		call.Spills, call.Spill, call.Last = false, nil, true
		b.Picker = &call
	}
	return b
}
