package translator

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/graph"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/translator/services"
)

func (t *tables) assignDatagrams(r *graph.Reader, a *model.Assignment) bool {
	gw, ok := t.gateways.Get(r, a.Cluster.Key())
	if !ok || gatewayapi.DatagramListener(gw, a.Cluster) == nil {
		return false
	}
	a.Owners = []report.Ref{gw.Ref}
	s, ok := t.streams.Get(r, hostKey{gw.Ref.Key(), model.DatagramName(uint16(a.Cluster.Port)), "*"})
	if !ok {
		return true
	}
	a.Owners = append(a.Owners, s.Owners...)
	shares := make([]gatewayapi.DatagramShare, len(s.Backends))
	for i, b := range s.Backends {
		shares[i].Weight = b.Weight
		if svc, ok := services.Of(r, b.Cluster); ok && !b.Cluster.IsZero() {
			var outside []string
			shares[i].Endpoints, outside = svc.Addresses(r, b.Cluster.Port, services.Transport(b.Cluster), t.cfg.Slices)
			a.Outside = append(a.Outside, outside...)
		}
	}
	a.Endpoints = gatewayapi.DatagramEndpoints(shares)
	return true
}
