package translator

import (
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
)

func order(a, b string) int { return strings.Compare(a, b) }

type gatewayTables struct {
	gateways *graph.Table[string, *model.Gateway]

	gatewaysByPort       *graph.Index[string, *model.Gateway, portKey]
	gatewaysByChain      *graph.Index[string, *model.Gateway, chainKey]
	gatewaysByHost       *graph.Index[string, *model.Gateway, hostKey]
	gatewaysByStream     *graph.Index[string, *model.Gateway, hostKey]
	gatewaysBySecret     *graph.Index[string, *model.Gateway, secretKey]
	gatewaysByCluster    *graph.Index[string, *model.Gateway, model.ClusterID]
	gatewaysByOwnCluster *graph.Index[string, *model.Gateway, clusterKey]
	gatewayCertificates  *graph.Table[string, string]
}

func (t *tables) declareGateways() {
	t.declareReport("gatewayClassReports", t.stored(store.GatewayClasses.Kind()),
		func(r *graph.Reader, key string) (report.Report, bool) {
			return deref(gatewayapi.Class(r, t.cfg.gatewayAPI(), key))
		})
	t.gateways = graph.Declare(t.engine, graph.Table[string, *model.Gateway]{
		Name:    "gateways",
		Order:   order,
		Sources: t.stored(store.Gateways.Kind()),
		Compute: func(r *graph.Reader, key string) (*model.Gateway, bool) {
			g := gatewayapi.Gateway(r, t.cfg.gatewayAPI(), key)
			return g, g != nil
		},
	})
	t.indexGatewayPorts()
	t.indexGatewayListeners()
	t.gatewaysByCluster = graph.NewIndex(t.gateways, "cluster", func(_ string, g *model.Gateway) []model.ClusterID {
		return append(gatewayapi.DatagramClusters(g), t.cfg.ownClusters()...)
	})
	t.gatewaysByOwnCluster = graph.NewIndex(t.gateways, "gatewayCluster",
		func(gw string, g *model.Gateway) (keys []clusterKey) {
			for _, c := range append(gatewayapi.DatagramClusters(g), t.cfg.ownClusters()...) {
				keys = append(keys, clusterKey{gw, c})
			}
			return keys
		})
	t.gatewayCertificates = graph.Declare(t.engine, graph.Table[string, string]{
		Name:    "gatewayCertificates",
		Order:   order,
		Sources: []graph.Source[string]{t.gateways},
		Compute: func(r *graph.Reader, gateway string) (string, bool) {
			g, ok := t.gateways.Get(r, gateway)
			if !ok {
				return "", false
			}
			return g.Certificate, true
		},
	})
}

func deref(rep *report.Report) (report.Report, bool) {
	if rep == nil {
		return report.Report{}, false
	}
	return *rep, true
}

func (t *tables) indexGatewayPorts() {
	t.gatewaysByPort = graph.NewIndex(t.gateways, "port", func(gw string, g *model.Gateway) (keys []portKey) {
		for _, p := range gatewayapi.Ports(g) {
			keys = append(keys, portKey{gw, p.Socket()})
		}
		return keys
	})
	t.gatewaysByChain = graph.NewIndex(t.gateways, "chain", func(gw string, g *model.Gateway) (keys []chainKey) {
		for _, p := range gatewayapi.Ports(g) {
			for _, c := range p.Chains {
				keys = append(keys, chainKey{gw, c.Name})
			}
		}
		return keys
	})
}

func (t *tables) indexGatewayListeners() {
	hosts := func(stream bool) func(string, *model.Gateway) []hostKey {
		return func(gw string, g *model.Gateway) (keys []hostKey) {
			for _, l := range g.Listeners {
				if l.Chain != "" && l.Stream() == stream {
					keys = append(keys, hostKey{gw, l.Chain, l.Hostname})
				}
			}
			return keys
		}
	}
	t.gatewaysByHost = graph.NewIndex(t.gateways, "host", hosts(false))
	t.gatewaysByStream = graph.NewIndex(t.gateways, "stream", hosts(true))
	t.gatewaysBySecret = graph.NewIndex(t.gateways, "secret", func(gw string, g *model.Gateway) (keys []secretKey) {
		for _, l := range g.Listeners {
			if l.Chain == "" {
				continue
			}
			for _, s := range l.Secrets {
				keys = append(keys, secretKey{gw, s})
			}
			if l.Clients != nil {
				keys = append(keys, secretKey{gw, l.Clients.Trust})
			}
		}
		return keys
	})
}

func (t *tables) gateway(r *graph.Reader) func(key string) (*model.Gateway, bool) {
	return func(key string) (*model.Gateway, bool) { return t.gateways.Get(r, key) }
}
