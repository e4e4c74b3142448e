package picker

import (
	"github.com/penstock-project/penstock/picker/extproc"
)

// target is one kind of place to which picks send requests. Its methods are stages, and keep their
// state in the pick.
type target interface {
	// restrict decides to what its request may be sent.
	restrict(*pick)
	// rank chooses where it is sent, the best first.
	rank(*pick)
	// lease counts it there.
	lease(*pick)
	// spill decides about a request that nothing takes.
	spill(*pick)
	// answer names what was chosen.
	answer(*pick)
}

// targetOf returns the kind of a pool's target.
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

// gateways are gateways of another cluster. Nothing is picked for them.
type gateways struct{}

func (gateways) restrict(k *pick) {
	if asksForModels(k.request.Headers) {
		k.decide(extproc.Answer{Pass: true}, "")
		return
	}
	// Envoy has newer configuration than this picker: the pool has a picker now. The picker of the
	// process that configured Envoy knows it.
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

// servers are the model servers of a pool.
type servers struct{}
