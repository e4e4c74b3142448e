package translator

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
	"github.com/penstock-project/penstock/translator/model"
)

type hopTables struct {
	hops         *graph.Table[hopKey, hop]
	hopBlocks    *graph.Table[blockKey, block]
	hopListeners *graph.Table[chainKey, encoded]
	hopRoutes    *graph.Table[chainKey, encoded]

	hopsByBlock      *graph.Index[hopKey, hop, blockKey]
	hopBlocksByChain *graph.Index[blockKey, block, chainKey]
}

type hop struct {
	encoded *envoy.Encoded
	err     error
}

func (t *tables) declareHops() {
	t.hops = graph.Declare(t.engine, graph.Table[hopKey, hop]{
		Name:    "hops",
		Order:   hopKey.compare,
		Sources: []graph.Source[hopKey]{t.attachmentsByGatewayHop},
		Compute: func(r *graph.Reader, key hopKey) (hop, bool) {
			h, ok := inference.Hop(r, key.hop)
			if !ok {
				return hop{}, false
			}
			host, err := envoy.HopHost(*h)
			return hop{host, err}, true
		},
	})
	t.hopsByBlock = graph.NewIndex(t.hops, "block", func(key hopKey, _ hop) []blockKey {
		return []blockKey{blockOf(key.gateway, model.HopListener, key.hop.String())}
	})
	t.hopBlocks, t.hopBlocksByChain = t.declareBlocks("hopBlocks", t.hopsByBlock,
		func(r *graph.Reader, key blockKey) (hosts []*envoy.Encoded) {
			_, rows := t.hopsByBlock.Each(r, key)
			for _, h := range rows {
				hosts = append(hosts, h.encoded)
			}
			return hosts
		})
	t.hopListeners = declareResources(t, graph.Table[chainKey, encoded]{
		Name:    "hopListeners",
		Order:   chainKey.compare,
		Sources: []graph.Source[chainKey]{t.hopBlocksByChain},
		Compute: func(_ *graph.Reader, key chainKey) (encoded, bool) {
			return one(envoy.HopListener(t.cfg.Envoy, []report.Ref{store.RefOf(store.Gateways, key.gateway)})), true
		},
	})
	t.hopRoutes = declareResources(t, graph.Table[chainKey, encoded]{
		Name:    "hopRoutes",
		Order:   chainKey.compare,
		Sources: []graph.Source[chainKey]{t.hopBlocksByChain},
		Compute: t.hopRoute,
	})
}

func (t *tables) hopRoute(r *graph.Reader, key chainKey) (encoded, bool) {
	blocks, err := encodedBlocks(t.hopBlocksByChain.Each(r, key))
	if err != nil {
		return encoded{err: err}, true
	}
	return one(envoy.HopRoutes(blocks...)), true
}
