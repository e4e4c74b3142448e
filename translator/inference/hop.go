package inference

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

// Hop returns a hop with its backends: the last variants of its pool or import, which have no spill
// targets. It returns false if the pool does not exist, or if no cluster of the import takes
// requests.
func Hop(r store.Reader, id model.HopID) (*model.Hop, bool) {
	hop := &model.Hop{Name: id}
	if id.Import {
		return importHop(r, hop)
	}
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
	return hop, true
}

// importHop returns the hop to an import. If several exporting clusters take requests, its backends
// are their hops, so that another cluster serves the requests that one declines. With
// model.AnyMember, all clusters are backends, by weight.
func importHop(r store.Reader, hop *model.Hop) (*model.Hop, bool) {
	id := hop.Name
	one := id.Member != "" && id.Member != model.AnyMember
	var imp *model.Import
	var ok bool
	switch {
	case id.Member != "": // the ID comes from a translated import, not from a user's name
		if imp, _, _, ok = baseImport(r, id.Key()); !ok {
			return nil, false
		}
	default:
		key, cluster, found := gatewayapi.ImportNamed(r, id.Namespace, id.Name)
		if !found {
			return nil, false
		}
		if cluster == "" {
			if several, found := SpilledTo(r, key); found {
				return throughMembers(r, hop, several), true
			}
		}
		if imp, _, _, ok = baseImport(r, key); !ok {
			return nil, false
		}
		if cluster != "" {
			if imp, ok = pinnedTo(imp, cluster); !ok {
				return nil, false
			}
		}
	}
	several := takers(imp) != nil
	if one {
		hop.NoGRPC = several && NoGRPC(r, imp)(id.Member)
		if imp, ok = pinnedTo(imp, id.Member); !ok {
			return nil, false
		}
	}
	hop.Owners = append(hop.Owners, imp.Ref)
	for _, m := range imp.Members {
		if m.Local && one {
			if obj, ok := store.InferencePools.Get(r, imp.Ref.Key()); ok {
				p, _ := basePool(r, obj)
				hop.Backends = append(hop.Backends, lastBackend(p, 1))
			}
			continue
		}
		// The local pool of the same name may be the source of the spill.
		if !m.Takes() || m.Local {
			continue
		}
		if m.Pool != nil {
			b := lastBackend(m.Pool, m.Share)
			if several && one && b.Picker != nil {
				b.Picker.Closed = true
			}
			hop.Backends = append(hop.Backends, b)
		} else {
			cluster := m.Cluster
			if several {
				cluster = cluster.As(model.LastVariant)
			}
			hop.Backends = append(hop.Backends, model.WeightedBackend{
				Cluster: cluster, Backend: store.TargetOf(imp.Ref),
				Weight: m.Share, MaxGateways: m.MaxGateways, Peer: m.Peer, RewriteHost: m.Hostname,
			})
		}
	}
	return hop, len(hop.Backends) > 0
}

// NoGRPC reports which exporting clusters get no gRPC requests: clusters with HTTP/1.1, if another
// cluster has HTTP/2.
func NoGRPC(r store.Reader, imp *model.Import) func(member string) bool {
	speaks := map[string]model.Protocol{}
	some := false
	for i := range imp.Members {
		m := &imp.Members[i]
		protocol := m.Protocol
		switch {
		case m.Pool != nil:
			protocol = m.Pool.Protocol
		case m.Local:
			if pool, ok := store.InferencePools.Get(r, imp.Ref.Key()); ok {
				protocol = protocolOf(pool.Spec.AppProtocol)
			}
		}
		speaks[m.Name], some = protocol, some || m.Takes() && protocol == model.H2C
	}
	return func(member string) bool { return some && speaks[member] != model.H2C }
}

func throughMembers(r store.Reader, hop *model.Hop, imp *model.Import) *model.Hop {
	to := model.WeightedBackend{
		Cluster: imp.Cluster, Backend: store.TargetOf(imp.Ref), Weight: 1,
		Order: imp.Order, RetryOn: imp.RetryOn, Spills: uint32(len(imp.Spill)),
	}
	if imp.Choice != nil {
		to.Picker = &imp.Choice.Picker
	}
	for i := range imp.Members {
		m := &imp.Members[i]
		behind, ok := Hop(r, imp.Hop(m))
		if !ok || !m.Takes() {
			continue
		}
		to.Members = append(to.Members, behind.Backends...)
		hop.Behind = append(hop.Behind, model.Spill{Hop: behind.Name, Owner: imp.Ref, Backends: behind.Backends})
	}
	hop.Behind = append(hop.Behind, imp.Spill...)
	hop.Owners, hop.Backends = append(hop.Owners, imp.Ref), []model.WeightedBackend{to}
	return hop
}

func lastBackend(p *model.Pool, weight uint32) model.WeightedBackend {
	b := model.WeightedBackend{Cluster: p.Last, Backend: store.TargetOf(p.Ref),
		Weight: weight}
	if !p.Picker.Cluster.IsZero() {
		call := p.Picker
		call.Spills, call.Spill, call.Last = false, nil, true
		b.Picker = &call
	}
	return b
}
