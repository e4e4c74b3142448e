package translator

import (
	"iter"
	"slices"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

type hostTables struct {
	virtualHosts        *graph.Table[hostKey, virtualHost]
	chains              *graph.Table[chainKey, model.Chain]
	blocks              *graph.Table[blockKey, block]
	routeConfigurations *graph.Table[chainKey, encoded]

	virtualHostsByBlock *graph.Index[hostKey, virtualHost, blockKey]
	blocksByChain       *graph.Index[blockKey, block, chainKey]
}

type virtualHost struct {
	model   *model.VirtualHost
	encoded *envoy.Encoded // if err is set: a substitute, or nil
	at      []report.Ref
	err     error
}

type block struct {
	encoded *envoy.Block
	err     error
}

func (t *tables) declareHosts() {
	t.virtualHosts = graph.Declare(t.engine, graph.Table[hostKey, virtualHost]{
		Name:    "virtualHosts",
		Order:   hostKey.compare,
		Sources: []graph.Source[hostKey]{t.attachmentsByHost, t.gatewaysByHost},
		Compute: t.virtualHost,
		Recover: t.recoverHost,
	})
	t.virtualHostsByBlock = graph.NewIndex(t.virtualHosts, "block", func(key hostKey, _ virtualHost) []blockKey {
		return []blockKey{blockOf(key.gateway, key.chain, key.host)}
	})
	t.blocks, t.blocksByChain = t.declareBlocks("blocks", t.virtualHostsByBlock,
		func(r *graph.Reader, key blockKey) (hosts []*envoy.Encoded) {
			_, rows := t.virtualHostsByBlock.Each(r, key)
			for _, h := range rows {
				hosts = append(hosts, h.encoded)
			}
			return hosts
		})
	// A filter chain depends on all listeners of its port, because it answers 421 for their
	// hostnames. In a table of its own, it is not recomputed when a route changes.
	t.chains = graph.Declare(t.engine, graph.Table[chainKey, model.Chain]{
		Name:    "chains",
		Order:   chainKey.compare,
		Sources: []graph.Source[chainKey]{t.gatewaysByChain},
		Compute: t.chain,
	})
	t.routeConfigurations = declareResources(t, graph.Table[chainKey, encoded]{
		Name:    "routeConfigurations",
		Order:   chainKey.compare,
		Sources: []graph.Source[chainKey]{t.gatewaysByChain},
		Compute: t.routeConfiguration,
	})
}

// If no route of a host matches, Gateway API tries a wider hostname; Envoy does not. So virtualHost
// also adds the routes of wider hostnames of the same listener.
func (t *tables) virtualHost(r *graph.Reader, key hostKey) (virtualHost, bool) {
	g, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return virtualHost{}, false
	}
	attached := t.attachedTo(r, key)
	vh := gatewayapi.VirtualHost(g, key.chain, key.host, attached, t.budget(r, key, attached))
	if vh == nil {
		return virtualHost{}, false
	}
	t.gate(r, vh)
	enc, err := envoy.VirtualHost(vh)
	if err != nil {
		return encodeHost(vh, nil), true
	}
	return virtualHost{model: vh, encoded: enc}, true
}

func (t *tables) attachedTo(r *graph.Reader, key hostKey) (attached []*model.Attachment) {
	for _, h := range gatewayapi.Covering(key.host) {
		for _, row := range t.attachmentsByHost.By(r, hostKey{key.gateway, key.chain, h}) {
			if !slices.Contains(attached, row.Value) {
				attached = append(attached, row.Value)
			}
		}
	}
	return attached
}

func (t *tables) chain(r *graph.Reader, key chainKey) (model.Chain, bool) {
	g, ok := t.gateways.Get(r, key.gateway)
	if !ok {
		return model.Chain{}, false
	}
	for _, p := range gatewayapi.Ports(g) {
		for _, c := range p.Chains {
			if c.Name == key.chain {
				return c, true
			}
		}
	}
	return model.Chain{}, false
}

func (t *tables) declareBlocks(name string, source graph.Source[blockKey],
	hosts func(*graph.Reader, blockKey) []*envoy.Encoded,
) (*graph.Table[blockKey, block], *graph.Index[blockKey, block, chainKey]) {
	blocks := graph.Declare(t.engine, graph.Table[blockKey, block]{
		Name:    name,
		Order:   blockKey.compare,
		Sources: []graph.Source[blockKey]{source},
		Equal:   func(a, b block) bool { return a.encoded.Equal(b.encoded) && sameError(a.err, b.err) },
		Compute: func(r *graph.Reader, key blockKey) (block, bool) {
			all := slices.DeleteFunc(hosts(r, key), func(h *envoy.Encoded) bool { return h == nil })
			b, err := envoy.NewBlock(all)
			return block{b, err}, true
		},
	})
	return blocks, graph.NewIndex(blocks, "chain", func(key blockKey, _ block) []chainKey {
		return []chainKey{{key.gateway, key.chain}}
	})
}

func (t *tables) routeConfiguration(r *graph.Reader, key chainKey) (encoded, bool) {
	chain, ok := t.chains.Get(r, key)
	if !ok {
		return encoded{}, false
	}
	blocks, err := encodedBlocks(t.blocksByChain.Each(r, key))
	if err != nil {
		return encoded{err: err}, true
	}
	return one(envoy.RouteConfiguration(key.chain, chain, blocks...)), true
}

func encodedBlocks(n int, rows iter.Seq2[blockKey, block]) ([]*envoy.Block, error) {
	blocks := make([]*envoy.Block, 0, n)
	for _, b := range rows {
		if b.err != nil {
			return nil, b.err
		}
		blocks = append(blocks, b.encoded)
	}
	return blocks, nil
}
