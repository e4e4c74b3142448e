package picker

import (
	"github.com/penstock-project/penstock/picker/extproc"
)

// target is a kind of destination. Each method does the work of its stage for this kind, and keeps
// its data in the pick.
type target interface {
	restrict(*pick)
	rank(*pick)
	lease(*pick)
	spill(*pick)
	answer(*pick)
}

func (pool *pool) targetOf() target {
	switch {
	case pool.Gateways:
		return gateways{}
	case pool.stays != nil:
		return stayingClusters{}
	case pool.Clusters != nil:
		return clusters{}
	case pool.Relay != nil:
		return remote{}
	case pool.sessions != nil && pool.readsSessions():
		return sessions{}
	}
	return servers{}
}

type gateways struct{}

func (gateways) restrict(k *pick) {
	if asksForModels(k.request.Headers) {
		k.decide(extproc.Answer{Pass: true}, "")
		return
	}
	// This process has older configuration than Envoy, in whose configuration a picker chooses.
	k.decide(
		extproc.Answer{
			Unavailable: true, Message: "this picker does not pick for pool " + k.request.Pool +
				", whose requests go to gateways of another cluster",
		}, "")
}

func (gateways) rank(*pick)   {}
func (gateways) lease(*pick)  {}
func (gateways) spill(*pick)  {}
func (gateways) answer(*pick) {}

type servers struct{}
