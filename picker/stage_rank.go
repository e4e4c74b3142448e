package picker

import (
	"fmt"
	"math"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/models"
	"github.com/penstock-project/penstock/picker/schedule"
)

// rank chooses where the request is sent, the best first: model servers by the pool's strategy, or by its
// processor; clusters of an import by what they cost; what a remote picker names. It opens no lease; an
// import charges its first cluster here, and a remote picker is called: settle ends both. It ends the
// pick of an import that has no cluster.
func rank(k *pick) { k.target.rank(k) }

// rank of servers is once more taken by lease and spill, if other picks take what it has chosen. It
// waits for the report of an end before chwbl passes over the endpoint of the request's key.
func (servers) rank(k *pick) {
	k.foreshadow()
	if k.byWorker = k.processed.worker; k.keptHere() {
		k.byWorker = nil
	}
	if k.byWorker == nil || !k.choose(k.pool.strategy) {
		k.byStrategy()
	}
	if k.byWorker == nil && k.scratch.Passed != nil {
		k.awaitKeys()
	}
}

// awaitKeys ranks again once the endpoint of the request's key, which chwbl passed over for its
// load, has fewer requests in flight: the request before may have ended without a report so far.
func (k *pick) awaitKeys() {
	strategy, load := k.pool.strategy, k.scratch.Passed.Load()
	before := int64(math.MaxInt64) // the first call ranks: a request may have ended since the rank
	found := k.awaitEnd(func() bool {
		now := load.Total()
		if now >= before {
			return false // a request at another endpoint has ended: a rank would change nothing
		}
		before = now
		return k.choose(strategy) && k.scratch.Passed == nil
	})
	if !found { // the counts are as old as the wait
		k.choose(strategy)
	}
}

// choose ranks the endpoints by a strategy. It returns false if none takes the request.
func (k *pick) choose(s *schedule.Strategy) bool {
	k.strategy, k.at = s, time.Now()
	allowed := k.allowed
	if worker, own := k.byWorker, k.allowed; worker != nil {
		allowed = func(e *endpoint.Endpoint) bool { return worker(e) && (own == nil || own(e)) }
	}
	k.lacks = Lacks{}
	if !k.atKeeper(s, allowed) && !k.amongHolders(s, allowed) {
		k.ranked = s.Rank(&k.query, k.at, k.endpoints, allowed, 1+k.pool.Fallbacks, &k.scratch)
	}
	if len(k.ranked) == 0 {
		return false
	}
	if k.sampled {
		k.verdicts = k.pool.describe(s, &k.query, k.at, allowed, k.leftOut())
	}
	return true
}

// amongHolders ranks the endpoints that have the request's model. It returns false if none lacks it, or
// if the others are to be ranked, too: because no endpoint with the model is up, or because none has
// room, unless all others are known to answer 404.
func (k *pick) amongHolders(s *schedule.Strategy, allowed func(*endpoint.Endpoint) bool) bool {
	if k.lacking == nil {
		return false
	}
	k.ranked = s.Rank(&k.query, k.at, k.endpoints, within(allowed, k.lacking.Keep()), 1+k.pool.Fallbacks, &k.scratch)
	up := len(k.ranked) > 0 && !k.ranked[0].Suspect()
	if !up && (!k.lacking.Strict || k.scratch.Eligible == 0) {
		return false
	}
	k.lacks = Lacks{Unlisted: k.lacking.Unlisted, NotFound: k.lacking.NotFound}
	return true
}

// leftOut are the servers that the last rank has left out, because they lack the model; nil: none.
func (k *pick) leftOut() *models.Lacking {
	if k.lacks == (Lacks{}) {
		return nil
	}
	return k.lacking
}

// within is the conjunction of two filters, of which the first may be nil.
func within(first, second func(*endpoint.Endpoint) bool) func(*endpoint.Endpoint) bool {
	if first == nil {
		return second
	}
	return func(e *endpoint.Endpoint) bool { return first(e) && second(e) }
}

// byStrategy ranks by the pool's strategy, in place of the processor if that has named a worker.
func (k *pick) byStrategy() bool {
	if k.byWorker != nil {
		k.byWorker = nil
		k.fallBack(busyWorker)
	}
	return k.choose(k.pool.strategy)
}

// several is a number of things.
func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// rankedBy is rank for a reader.
func rankedBy(r *Record) string {
	switch {
	case r.Error != "":
		return "its own picker does not answer: " + r.Error
	case r.Result == resultCluster:
		return several(r.Candidates, "cluster")
	case r.Result == resultRelayed:
		return several(r.Candidates, "endpoint") + " that its own picker names"
	}
	return several(r.Candidates, "candidate")
}
