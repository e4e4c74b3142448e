package picker

import (
	"fmt"
	"math"
)

// rank chooses the request's destinations, best first. It opens no lease, but it charges an
// import's first cluster or calls a remote picker; settle ends the charge or the call. It ends the
// pick of an import without a cluster.
func rank(k *pick) { k.target.rank(k) }

// lease and spill may repeat rank, if other picks take the chosen endpoint.
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

// awaitKeys ranks again once the endpoint of the request's key has fewer requests in flight. chwbl
// passed over this endpoint, but the end of one of its requests may not be reported yet.
func (k *pick) awaitKeys() {
	strategy, load := k.pool.strategy, k.scratch.Passed.Load()
	before := int64(math.MaxInt64) // so that the first call ranks: a request may have ended since the last rank
	found := k.awaitEnd(func() bool {
		now := load.Total()
		if now >= before {
			return false // a request at another endpoint ended: to rank again would change nothing
		}
		before = now
		return k.choose(strategy) && k.scratch.Passed == nil
	})
	if !found { // the awaited ends did not come: rank by current counts
		k.choose(strategy)
	}
}

func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

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
