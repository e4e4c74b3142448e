package gatewayapi

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/model"
)

// PeerPort returns a Gateway's port with this number, for other clusters of the cluster set.
func PeerPort(gw *model.Gateway, number uint16) model.Port {
	return model.Port{Gateway: gw.Ref.Key(), Number: number, Addresses: gw.Addresses, Edge: edge(gw.Fleet),
		Owners: []report.Ref{gw.Ref}}
}
