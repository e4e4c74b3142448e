package picker

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// recall finds the server or cluster with the stored response that a request names, in pools with
// Pool.Responses, and sets k.keeper to its address. It waits at most 100 ms for an unknown
// response, which a server may have just created. It ends no pick.
//
// Servers without the response answer 404. So the server with the response takes precedence over
// sessions, processors, strategies, flow control and limits, but not over the gateway's subset.
func recall(k *pick) {
	if k.pool.responses == nil {
		return
	}
	r := k.request
	id, _ := namedResponse(r.Headers.Header(":path"), &r.Facts)
	if id == (request.ResponseID{}) {
		return
	}
	k.follows = followsUnknown
	if k.keeper = k.pool.responses.find(id, k.started); k.keeper != "" {
		return
	}
	k.keeper = k.pool.responses.await(k.ctx, id)
	k.started = time.Now()
}

func recalled(r *Record) string { return r.Follows }

func (k *pick) keeps() bool {
	_, names := namedResponse(k.request.Headers.Header(":path"), &k.request.Facts)
	return names && k.pool.responses != nil && !k.request.Facts.Unstored
}

func (k *pick) hopToKeeper(hops []string) string {
	if k.keeper != "" && isHop(k.keeper) && slices.Contains(hops, k.keeper) {
		return k.keeper
	}
	return ""
}

func (k *pick) keptHere() bool {
	return k.keeper != "" && slices.ContainsFunc(k.pool.snapshot.Endpoints, func(e endpoint.Endpoint) bool {
		return e.Text == k.keeper && !e.Draining
	})
}

func (k *pick) atKeeper(s *schedule.Strategy, allowed func(*endpoint.Endpoint) bool) bool {
	if k.keeper == "" || isHop(k.keeper) {
		return false
	}
	keeps := func(e *endpoint.Endpoint) bool { return e.Text == k.keeper }
	k.ranked = s.Rank(&k.query, k.at, k.endpoints, within(allowed, keeps), 1, &k.scratch)
	switch {
	case len(k.ranked) > 0 && !k.ranked[0].Suspect():
		k.follows = followsKept
	case len(k.ranked) == 0 && k.scratch.Eligible > 0:
		k.follows = followsFull
	default:
		k.follows = followsLost
		return false
	}
	return true
}

func (k *pick) bound() bool { return k.follows == followsKept || k.follows == followsFull }
