package picker

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// recall finds where the response is that a request names, in pools with Pool.Responses. It waits
// 100 ms at most for one that is not known: its server may have answered a moment ago. It sets
// k.keeper, and ends no pick.
//
// While that server takes requests, the request goes nowhere else: any other server answers it 404.
// So the server comes before a session's, a processor's and a strategy's, and before flow control
// and limits send the request to other pools. The gateway's subset comes before it.
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
	k.started = time.Now() // the time of a pick is what the picker itself takes
}

// recalled is recall for a reader.
func recalled(r *Record) string { return r.Follows }

// keeps reports whether the answer of a server to the request may be a response that the server
// keeps.
func (k *pick) keeps() bool {
	_, names := namedResponse(k.request.Headers.Header(":path"), &k.request.Facts)
	return names && k.pool.responses != nil && !k.request.Facts.Unstored
}

// keeperCluster returns the name of the cluster of an import where the request's response is; "" if
// it is not known.
func (k *pick) keeperCluster() string {
	list := k.pool.Clusters.List
	if i := slices.IndexFunc(list, func(c Cluster) bool { return k.keeper != "" && c.Hop == k.keeper }); i >= 0 {
		return list[i].Name
	}
	return ""
}

// hopToKeeper returns the hop behind which the request's response is; "" if it is not behind one.
func (k *pick) hopToKeeper(hops []string) string {
	if k.keeper != "" && isHop(k.keeper) && slices.Contains(hops, k.keeper) {
		return k.keeper
	}
	return ""
}

// keptHere reports whether a server of the pool keeps the request's response, and may take
// requests.
func (k *pick) keptHere() bool {
	return k.keeper != "" && slices.ContainsFunc(k.pool.snapshot.Endpoints, func(e endpoint.Endpoint) bool {
		return e.Text == k.keeper && !e.Draining
	})
}

// atKeeper ranks the server that keeps the request's response alone. It returns false if that
// server takes no requests.
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

// bound reports whether the last rank left the request no server but the one that keeps its
// response.
func (k *pick) bound() bool { return k.follows == followsKept || k.follows == followsFull }
