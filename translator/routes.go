package translator

import (
	"slices"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

// The string keys are store.TargetKeys of routes.
type routeTables struct {
	candidates  *graph.Table[string, *model.Candidate]
	contests    *graph.Table[listenerKey, []model.Loss]
	attachments *graph.Table[string, *model.Attachment]

	candidatesByListener *graph.Index[string, *model.Candidate, listenerKey]
	candidatesByContest  *graph.Index[string, *model.Candidate, listenerKey]
	contestsByRoute      *graph.Index[listenerKey, []model.Loss, string]

	attachmentsByHost           *graph.Index[string, *model.Attachment, hostKey]
	attachmentsByStream         *graph.Index[string, *model.Attachment, hostKey]
	attachmentsByListener       *graph.Index[string, *model.Attachment, listenerKey]
	attachmentsByBackend        *graph.Index[string, *model.Attachment, string]
	attachmentsByCluster        *graph.Index[string, *model.Attachment, model.ClusterID]
	attachmentsByImportedPool   *graph.Index[string, *model.Attachment, objectid.Target]
	attachmentsByPicker         *graph.Index[string, *model.Attachment, model.ClusterID]
	attachmentsByRemotePicker   *graph.Index[string, *model.Attachment, model.ClusterID]
	attachmentsByHop            *graph.Index[string, *model.Attachment, model.HopID]
	attachmentsByGatewayCluster *graph.Index[string, *model.Attachment, clusterKey]
	attachmentsByGatewayHop     *graph.Index[string, *model.Attachment, hopKey]
}

func (t *tables) declareRoutes() {
	t.declareCandidates()
	t.contests = graph.Declare(t.engine, graph.Table[listenerKey, []model.Loss]{
		Name:    "contests",
		Order:   listenerKey.compare,
		Sources: []graph.Source[listenerKey]{t.candidatesByContest},
		Compute: func(r *graph.Reader, key listenerKey) ([]model.Loss, bool) {
			var all []*model.Candidate
			for _, row := range t.candidatesByListener.By(r, key) {
				all = append(all, row.Value)
			}
			losses := gatewayapi.Contest(key.gateway, key.listener, all)
			return losses, len(losses) > 0
		},
	})
	t.contestsByRoute = graph.NewIndex(t.contests, "route", func(_ listenerKey, losses []model.Loss) (keys []string) {
		for _, l := range losses {
			keys = append(keys, store.TargetOf(l.Route))
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	})
	t.declareBudgets()
	t.attachments = graph.Declare(t.engine, graph.Table[string, *model.Attachment]{
		Name:    "attachments",
		Order:   order,
		Sources: []graph.Source[string]{t.candidates},
		Compute: t.attachment,
		Recover: t.retain,
	})
	t.indexAttachedHosts()
	t.indexAttachedBackends()
}

func (t *tables) declareCandidates() {
	var sources []graph.Source[string]
	for _, table := range []store.Kind{store.HTTPRoutes, store.GRPCRoutes, store.TLSRoutes, store.TCPRoutes,
		store.UDPRoutes} {
		sources = append(sources, t.engine.Stored(table.Kind(), store.ByRoute))
	}
	t.candidates = graph.Declare(t.engine, graph.Table[string, *model.Candidate]{
		Name:    "candidates",
		Order:   order,
		Sources: sources,
		Compute: func(r *graph.Reader, key string) (*model.Candidate, bool) {
			c := gatewayapi.Candidate(r, t.cfg.gatewayAPI(), t.gateway(r), key)
			return c, c != nil
		},
	})
	listeners := func(_ string, c *model.Candidate) (keys []listenerKey) {
		for _, parent := range c.Parents {
			for _, p := range parent.Places {
				keys = append(keys, listenerKey{p.Gateway, p.Listener})
			}
		}
		return keys
	}
	t.candidatesByListener = graph.NewIndex(t.candidates, "listener", listeners)
	// HTTPRoutes do not compete with each other for a host, and there may be thousands.
	t.candidatesByContest = graph.NewIndex(t.candidates, "contest", func(key string, c *model.Candidate) []listenerKey {
		if c.Route.Kind == store.HTTPRoutes.Kind() {
			return nil
		}
		return listeners(key, c)
	})
}

func (t *tables) attachment(r *graph.Reader, key string) (*model.Attachment, bool) {
	c, ok := t.candidates.Get(r, key)
	if !ok {
		return nil, false
	}
	a := gatewayapi.Attach(r, inference.Backends{Tables: lookup{t}}, c, t.losses(r, key, c))
	for _, id := range a.Clusters {
		for _, policy := range gatewayapi.PolicyKeys(r, id) {
			t.policyTrusts.Get(r, policy) // first waits until the CA certificates have been read
		}
	}
	return a, true
}

func (t *tables) retain(r *graph.Reader, key string, last *model.Attachment, _ bool) (*model.Attachment, bool) {
	c, ok := t.candidates.Get(r, key)
	if !ok {
		return nil, false
	}
	return gatewayapi.Retain(r, last, c, t.losses(r, key, c)), true
}

func (t *tables) losses(r *graph.Reader, key string, c *model.Candidate) (losses []model.Loss) {
	for _, row := range t.contestsByRoute.By(r, key) {
		for _, l := range row.Value {
			if l.Route == c.Route {
				losses = append(losses, l)
			}
		}
	}
	return slices.Concat(losses, t.overBudget(r, key, c), t.gatedStreams(r, c))
}

func (t *tables) indexAttachedHosts() {
	hosts := func(stream bool) func(string, *model.Attachment) []hostKey {
		return func(_ string, a *model.Attachment) (keys []hostKey) {
			for _, p := range a.Places {
				for _, h := range p.Hosts {
					if p.Stream == stream {
						keys = append(keys, hostKey{p.Gateway, p.Chain, h})
					}
				}
			}
			return keys
		}
	}
	t.attachmentsByHost = graph.NewIndex(t.attachments, "host", hosts(false))
	t.attachmentsByStream = graph.NewIndex(t.attachments, "stream", hosts(true))
	t.attachmentsByListener = graph.NewIndex(t.attachments, "listener",
		func(_ string, a *model.Attachment) (keys []listenerKey) {
			if !gatewayapi.Accepted(a) {
				return nil
			}
			for _, p := range a.Places {
				keys = append(keys, listenerKey{p.Gateway, p.Listener})
			}
			return keys
		})
}

func (t *tables) indexAttachedBackends() {
	t.attachmentsByBackend = graph.NewIndex(t.attachments, "backend",
		func(_ string, a *model.Attachment) []string { return a.Backends })
	t.attachmentsByCluster = graph.NewIndex(t.attachments, "cluster",
		placed(func(a *model.Attachment) []model.ClusterID { return a.Clusters }))
	t.attachmentsByImportedPool = graph.NewIndex(t.attachments, "importedPool",
		placed(func(a *model.Attachment) (pools []objectid.Target) {
			for _, id := range a.Clusters {
				if pool := id.Pool(); pool.Imported() {
					pools = append(pools, pool)
				}
			}
			return slices.Compact(pools)
		}))
	t.attachmentsByPicker = graph.NewIndex(t.attachments, "picker",
		placed(func(a *model.Attachment) (pickers []model.ClusterID) {
			for _, id := range a.Clusters {
				if id.External() {
					pickers = append(pickers, id.As(model.Plain))
				}
			}
			return pickers
		}))
	t.attachmentsByRemotePicker = graph.NewIndex(t.attachments, "remotePicker",
		placed(func(a *model.Attachment) (pickers []model.ClusterID) {
			for _, id := range a.Clusters {
				if id.Kind == model.ImportKind {
					pickers = append(pickers, model.ImportPickerCluster(id.Namespace, id.Name, id.Member))
				}
			}
			return slices.Compact(pickers)
		}))
	t.attachmentsByHop = graph.NewIndex(t.attachments, "hop",
		placed(func(a *model.Attachment) []model.HopID { return a.Hops }))
	t.attachmentsByGatewayCluster = graph.NewIndex(t.attachments, "gatewayCluster",
		func(_ string, a *model.Attachment) (keys []clusterKey) {
			for _, gw := range gatewaysOf(a) {
				for _, c := range a.Clusters {
					keys = append(keys, clusterKey{gw, c})
				}
			}
			return keys
		})
	t.attachmentsByGatewayHop = graph.NewIndex(t.attachments, "gatewayHop",
		func(_ string, a *model.Attachment) (keys []hopKey) {
			for _, gw := range gatewaysOf(a) {
				for _, h := range a.Hops {
					keys = append(keys, hopKey{gw, h})
				}
			}
			return keys
		})
}

func gatewaysOf(a *model.Attachment) (out []string) {
	for _, p := range a.Places {
		out = append(out, p.Gateway)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func placed[K any](keys func(*model.Attachment) []K) func(string, *model.Attachment) []K {
	return func(_ string, a *model.Attachment) []K {
		if len(a.Places) == 0 {
			return nil
		}
		return keys(a)
	}
}
