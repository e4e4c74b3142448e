package picker

import (
	"slices"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// spill decides about a request that no endpoint accepts. If all endpoints are full, it first waits
// a moment for another request to end. Then it sends the request to spill targets, to a full
// endpoint if the pool does not reject, or to any endpoint if a remote picker's pool fails open.
// Otherwise it ends the pick with 429 or 503.
func spill(k *pick) { k.target.spill(k) }

func (servers) spill(k *pick) {
	if k.bound() { // no other pool has the stored response
		k.spillTo = nil
	}
	if len(k.ranked) == 0 && k.scratch.Eligible > 0 && !k.scratch.Shed {
		k.whenFull()
	}
	fault(k.request)
	k.judge()
	k.compare(len(k.ranked), k.scratch.Candidates(), k.pool.strategy.Measure())
	if len(k.ranked) > 0 {
		return
	}
	k.result = resultSpilled
	if len(k.spillTo) == 0 {
		a := k.pool.reject(&k.scratch, k.restricted)
		k.decide(a, a.Reason)
	}
	if k.answer.Status == 429 || k.sampled {
		k.exceeded = k.limits()
	}
}

func (k *pick) whenFull() {
	pool := k.pool
	if pool.Full.InFlight > 0 {
		k.awaitEnd(func() bool { return k.choose(pool.strategy) && k.take() })
	}
	if len(k.ranked) > 0 || len(k.spillTo) > 0 {
		return
	}
	if pool.unlimited != nil && k.request.Reported() && !k.request.Last {
		k.choose(pool.unlimited)
		k.take()
	}
}

func (k *pick) limits() []schedule.Excess {
	all := k.pool.strategy.Exceeded(&k.scratch)
	if limit := k.pool.Full.InFlight; len(all) == 0 && limit > 0 && k.contested > 0 {
		all = append(all,
			schedule.Excess{Limit: schedule.LimitInFlight, Max: float64(limit), Value: float64(k.contested),
				Endpoints: 1})
	}
	return all
}

func (pool *pool) reject(by *schedule.Scratch, restricted bool) extproc.Answer {
	switch name := quoted(pool.Name); {
	case by.Shed:
		return immediate(429, ReasonShed, "no model server of pool "+name+" "+by.Why)
	case by.Eligible > 0:
		return immediate(429, ReasonFull, "every model server of pool "+name+" is full")
	case restricted:
		return immediate(503, ReasonSubset, "no model server of pool "+name+" is in the subset that the gateway allows")
	default:
		return immediate(503, ReasonNoEndpoints, "pool "+name+" has no model server that takes requests")
	}
}

func (pool *pool) spill(asked []string) []string {
	unknown := func(target string) bool { return !slices.Contains(pool.Spill, target) }
	if !slices.ContainsFunc(asked, unknown) {
		return asked // the usual case, without a copy
	}
	return slices.DeleteFunc(slices.Clone(asked), unknown)
}

func spilled(r *Record) string {
	switch r.Result {
	case resultSpilled:
		return "the request goes to spill targets"
	case resultOpen:
		return "the pool fails open: the request goes to any endpoint"
	}
	return ""
}
