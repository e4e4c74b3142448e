package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/models"
	"github.com/penstock-project/penstock/picker/schedule"
)

func (k *pick) choose(s *schedule.Strategy) bool {
	k.strategy, k.at = s, time.Now()
	allowed := k.allowed
	if worker, own := k.byWorker, k.allowed; worker != nil {
		allowed = func(e *endpoint.Endpoint) bool { return worker(e) && (own == nil || own(e)) }
	}
	k.lacks = Lacks{}
	if !k.atKeeper(s, allowed) && !k.atSession(s, allowed) && !k.amongHolders(s, allowed) {
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

func (k *pick) byStrategy() bool {
	if k.byWorker != nil {
		k.byWorker = nil
		k.fallBack(busyWorker)
	}
	return k.choose(k.pool.strategy)
}

// amongHolders ranks only the endpoints that have the request's model. It returns true if the pick
// must use this rank, and false if the caller must rank all endpoints. It returns false if no
// endpoint lacks the model. If every endpoint with the model is full or suspect, it returns false
// unless the other endpoints are known to answer 404.
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

func (k *pick) leftOut() *models.Lacking {
	if k.lacks == (Lacks{}) {
		return nil
	}
	return k.lacking
}

func within(first, second func(*endpoint.Endpoint) bool) func(*endpoint.Endpoint) bool {
	if first == nil {
		return second
	}
	return func(e *endpoint.Endpoint) bool { return first(e) && second(e) }
}
