package translator

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/access"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

type gateTables struct {
	virtualHostsByPolicy *graph.Index[hostKey, virtualHost, string]
	gates                *graph.Table[string, []string]
}

func (t *tables) declareGates() {
	t.virtualHostsByPolicy = graph.NewIndex(t.virtualHosts, "policy", func(_ hostKey, vh virtualHost) (keys []string) {
		if vh.model == nil {
			return nil
		}
		for i := range vh.model.Routes {
			keys = append(keys, vh.model.Routes[i].Gates...)
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	})
	t.gates = graph.Declare(t.engine, graph.Table[string, []string]{
		Name:    "gates",
		Order:   order,
		Sources: []graph.Source[string]{t.virtualHostsByPolicy},
		Compute: func(r *graph.Reader, policy string) (gateways []string, _ bool) {
			for _, row := range t.virtualHostsByPolicy.By(r, policy) {
				gateways = append(gateways, row.Key.gateway)
			}
			slices.Sort(gateways)
			return slices.Compact(gateways), true
		},
	})
}

func (t *tables) gate(r *graph.Reader, vh *model.VirtualHost) {
	if !t.isPoliced(r) {
		return
	}
	pools := access.GatesPools(r)
	for i := range vh.Routes {
		route := &vh.Routes[i]
		at := access.Route{Gateway: vh.Gateway, Listener: vh.Listener, Route: route.Owner, Rule: route.RuleName}
		all := t.reached(r, route.Action)
		if pools {
			at.Pools = all.pools
		}
		route.Reaches = all.texts()
		route.Gates, route.ByModel = access.Above(r, at)
		route.ExactUsage = access.ExactUsage(r, route.Gates)
		route.Watched = access.Watches(r, route.Gates)
		vh.ByModel = vh.ByModel || route.ByModel
		for _, policy := range route.Gates {
			vh.Owners = append(vh.Owners, store.RefOf(store.AccessPolicies, policy))
		}
		if i == 0 {
			vh.Gates = route.Gates
			continue
		}
		vh.Gates = slices.DeleteFunc(slices.Clone(vh.Gates),
			func(policy string) bool { return !slices.Contains(route.Gates, policy) })
	}
	slices.SortFunc(vh.Owners, report.Ref.Compare)
	vh.Owners = slices.Compact(vh.Owners)
}

type reach struct {
	pools   []objectid.Target
	imports []objectid.Target
	others  bool
}

func (all *reach) add(id model.ClusterID) {
	pool := id.Pool()
	list := &all.pools
	switch {
	case pool.IsZero():
		all.others = true
		return
	case id.Kind != model.PoolKind:
		list, pool = &all.imports, objectid.Target{Pool: pool.Pool, Import: true}
	}
	if !slices.Contains(*list, pool) {
		*list = append(*list, pool)
	}
}

func (all *reach) texts() (texts []string) {
	for _, pool := range slices.Concat(all.pools, all.imports) {
		texts = append(texts, pool.String())
	}
	if all.others {
		texts = append(texts, model.AnythingElse)
	}
	slices.Sort(texts)
	return texts
}

// reached returns what the requests may reach. This includes an import's clusters with weight 0,
// because sessions may still use them.
func (t *tables) reached(r *graph.Reader, a *model.Action) (all reach) {
	if a.Forward == nil {
		return all
	}
	add := all.add
	spill := func(list []model.Spill) {
		for _, s := range list {
			for _, w := range s.Ends() {
				add(w.Cluster)
			}
		}
	}
	mirrors := func(list []model.Mirror) {
		for _, m := range list {
			add(m.Cluster)
		}
	}
	var backends func(list []model.WeightedBackend, sessions bool)
	backends = func(list []model.WeightedBackend, sessions bool) {
		for i := range list {
			w := &list[i]
			if w.Weight == 0 && !sessions {
				continue
			}
			add(w.Cluster)
			backends(w.Members, true)
			if w.Own != nil {
				mirrors(w.Own.Mirrors)
			}
			id := w.Cluster
			if id.Kind == model.PoolKind {
				if p, ok := t.pools.Get(r, id.Key()); ok {
					spill(p.Spill)
				}
			} else if imp, ok := t.imports.Get(r, id.Key()); ok && !id.Pool().IsZero() {
				spill(imp.Spill)
				for _, m := range imp.Members {
					if m.Pool != nil {
						spill(m.Pool.Spill)
					}
				}
			}
		}
	}
	backends(a.Forward.Backends, false)
	mirrors(a.Forward.Mirrors)
	return all
}

func (t *tables) gatedStreams(r *graph.Reader, c *model.Candidate) (losses []model.Loss) {
	for _, parent := range c.Parents {
		for _, place := range parent.Places {
			if !place.Stream {
				continue
			}
			if policy := access.Ungated(r, place.Gateway, place.Listener); policy != "" {
				losses = append(losses, model.Loss{Route: c.Route, Gateway: place.Gateway, Listener: place.Listener,
					Gate: policy})
			}
		}
	}
	return losses
}

// Gateways implements access.Targets.
func (l lookup) Gateways(r store.Reader, target report.Ref) (refs []report.Ref) {
	reader := r.(*graph.Reader)
	switch target.Kind {
	case store.Gateways.Kind():
		if g, ok := l.gateways.Get(reader, target.Key()); ok {
			return []report.Ref{g.Ref}
		}
		return nil
	case store.InferencePools.Kind():
		return l.gatewaysNaming(reader, target)
	}
	if a, ok := l.attachments.Get(reader, store.TargetKey(target.Kind, target.Namespace, target.Name)); ok {
		return l.gatewayRefs(reader, a)
	}
	return nil
}
