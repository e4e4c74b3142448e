package picker

import (
	"fmt"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// rank chooses where the request is sent, the best first: model servers by the pool's strategy, or by its
// processor; clusters of an import by what they cost; what a remote picker names. It opens no lease; an
// import charges its first cluster here, and a remote picker is called: settle ends both. It ends the
// pick of an import that has no cluster.
func rank(k *pick) { k.target.rank(k) }

// rank of servers is once more taken by lease and spill, if other picks take what it has chosen.
func (servers) rank(k *pick) {
	k.foreshadow()
	if k.byWorker = k.processed.worker; k.byWorker == nil || !k.choose(k.pool.strategy) {
		k.byStrategy()
	}
}

// choose ranks the endpoints by a strategy. It returns false if none takes the request.
func (k *pick) choose(s *schedule.Strategy) bool {
	k.strategy, k.at = s, time.Now()
	allowed := k.allowed
	if worker, own := k.byWorker, k.allowed; worker != nil {
		allowed = func(e *endpoint.Endpoint) bool { return worker(e) && (own == nil || own(e)) }
	}
	k.ranked = s.Rank(&k.query, k.at, k.endpoints, allowed, 1+k.pool.Fallbacks, &k.scratch)
	if len(k.ranked) == 0 {
		return false
	}
	if k.sampled {
		k.verdicts = k.pool.describe(s, &k.query, k.at, allowed)
	}
	return true
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
