package picker

import (
	"slices"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// lease counts the request at its destination until the access log reports the request's end, or
// its reports stop (endpoint.Leases). For a gateway without an access log, the count ends with the
// call. A Gateway with too many leases gets no lease. lease ends no pick.
func lease(k *pick) { k.target.lease(k) }

func (servers) lease(k *pick) {
	if !k.take() && k.byWorker != nil && k.byStrategy() {
		k.take()
	}
	if len(k.ranked) == 0 || k.pool.Fallbacks == 0 {
		return
	}
	if k.byWorker == nil {
		k.addLacking()
		return
	}
	// The processor chose the first endpoint; the strategy chooses the rest.
	first, own := k.ranked[0], k.allowed
	others := func(e *endpoint.Endpoint) bool { return e != first.Endpoint && (own == nil || own(e)) }
	k.ranked = append([]schedule.Candidate{first},
		k.pool.strategy.Rank(&k.query, k.at, k.endpoints, others, k.pool.Fallbacks, &k.others)...)
}

// addLacking appends endpoints whose lists of models lack the request's model, for retries: an
// engine may serve a model that its list lacks.
func (k *pick) addLacking() {
	lacking, free := k.leftOut(), 1+k.pool.Fallbacks-len(k.ranked)
	if lacking == nil || k.bound() || lacking.Strict || free <= 0 {
		return
	}
	others := within(k.allowed, lacking.Others())
	more := k.strategy.Preview(&k.query, k.at, k.endpoints, others, free, &k.others)
	k.ranked = append(slices.Clip(k.ranked), more...)
}

func leased(r *Record) string { return r.Lease }

func (k *pick) counted(a *extproc.Answer) {
	a.Pool, a.Lease = k.pool.Name, extproc.Lease{Owner: k.picker.leases.Owner(), Number: k.lease.Number()}
	if len(caller(k.request)) > 0 && !k.request.Last { // only the first gateway of a request logs usage
		a.Used = k.used()
	}
}

// used returns the pick's tokens, cost and model for the usage log. The cost is the time to read
// the uncached prompt, plus schedule.PerRequest.
func (k *pick) used() string {
	cached, cost := 0, time.Duration(0)
	if len(k.ranked) > 0 {
		first := &k.ranked[0]
		if cached = min(first.Cached, k.tokens); first.Rate > 0 {
			seconds := float64(k.tokens-cached)/first.Rate + schedule.PerRequest
			cost = time.Duration(seconds * float64(time.Second))
		}
	}
	return accesslog.PickText(k.tokens, cached, cost, k.model)
}
