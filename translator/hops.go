package translator

import (
	"github.com/penstock-project/penstock/translator/envoy"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/inference"
)

// hopTables are the internal listeners in front of pools, each with its route configuration.
type hopTables struct {
	hops *graph.Table[hopKey, encoded]
}

func (t *tables) declareHops() {
	t.hops = declareResources(t, graph.Table[hopKey, encoded]{
		Name:    "hops",
		Order:   hopKey.compare,
		Sources: []graph.Source[hopKey]{t.attachmentsByGatewayHop},
		Compute: func(r *graph.Reader, key hopKey) (encoded, bool) {
			hop, ok := inference.Hop(r, key.hop)
			if !ok {
				return encoded{}, false
			}
			listener := one(envoy.HopListener(t.cfg.Envoy, *hop))
			routes := one(envoy.HopRoutes(*hop))
			if listener.err != nil {
				return listener, true
			}
			return encoded{append(listener.resources, routes.resources...), routes.err}, true
		},
	})
}
