package picker

import (
	"fmt"
	"math"
)

// rank chooses the request's destinations, best first, and opens no lease. For an import it opens a
// Charge at the first cluster; for a remote picker it makes a call. settle ends both. rank ends a
// pick only if the import has no cluster.
func rank(k *pick) { k.target.rank(k) }

// If other picks take the last place at the chosen endpoint, the stages lease and spill rank again.
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

// awaitKeys waits a moment if the strategy chwbl passed over the full endpoint of the request's
// key: one of this endpoint's requests may have ended without a report so far. It ranks again
// whenever the endpoint has fewer requests in flight.
func (k *pick) awaitKeys() {
	strategy, load := k.pool.strategy, k.scratch.Passed.Load()
	before := int64(math.MaxInt64) // the first call ranks: a request may have ended since the last rank
	found := k.awaitEnd(func() bool {
		now := load.Total()
		if now >= before {
			return false // a request ended at another endpoint, so the rank would be the same
		}
		before = now
		return k.choose(strategy) && k.scratch.Passed == nil
	})
	if !found { // the endpoint stayed full: rank by the current counts
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
