package gatewayapi

import (
	"maps"
	"math/big"
	"net/netip"
	"slices"

	"github.com/penstock-project/penstock/translator/model"
)

// maxWeights limits the sum of a cluster's weights. Envoy's limit is 2^32-1, and draining endpoints
// count, too.
const maxWeights = 1 << 31

// DatagramShare is one backend of a UDPRoute with its endpoints.
type DatagramShare struct {
	Weight    uint32
	Endpoints []netip.AddrPort
}

// DatagramEndpoints divides each backend's weight among its endpoints. model.DropAddress gets the
// share of backends without endpoints (UDPRouteRule: "Packet drops must respect weight"). If no
// backend has endpoints, the result is empty.
func DatagramEndpoints(shares []DatagramShare) []model.Endpoint {
	parts := map[netip.AddrPort]*big.Rat{}
	add := func(at netip.AddrPort, part *big.Rat) {
		if parts[at] == nil {
			parts[at] = new(big.Rat)
		}
		parts[at].Add(parts[at], part)
	}
	usable := false
	for _, s := range shares {
		if s.Weight == 0 {
			continue
		}
		for _, at := range s.Endpoints {
			usable = true
			add(at, big.NewRat(int64(s.Weight), int64(len(s.Endpoints))))
		}
		if len(s.Endpoints) == 0 {
			add(model.DropAddress, big.NewRat(int64(s.Weight), 1))
		}
	}
	if !usable {
		return nil
	}
	addresses := slices.SortedFunc(maps.Keys(parts), netip.AddrPort.Compare)
	fractions := make([]*big.Rat, len(addresses))
	for i, at := range addresses {
		fractions[i] = parts[at]
	}
	out := make([]model.Endpoint, len(addresses))
	for i, weight := range integers(fractions, maxWeights) {
		out[i] = model.Endpoint{Address: addresses[i], Weight: max(weight, 1)}
	}
	return out
}
