package picker

import (
	"slices"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// lease counts the request where it is sent: at the first endpoint and at the further servers, at
// the cluster of an import, at a remote picker. That lasts until the access log reports the
// request's end, its reports stop (endpoint.Leases), or the call of a gateway without an access log
// ends. A Gateway with too many leases gets none. It ends no pick.
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
	// The processor has named the first endpoint; the strategy chooses those for retries.
	first, own := k.ranked[0], k.allowed
	others := func(e *endpoint.Endpoint) bool { return e != first.Endpoint && (own == nil || own(e)) }
	k.ranked = append([]schedule.Candidate{first}, k.pool.strategy.Rank(&k.query, k.at, k.endpoints, others, k.pool.Fallbacks, &k.others)...)
}

// addLacking adds, behind the endpoints that have the request's model, others for retries: an engine
// may serve a name that its list lacks.
func (k *pick) addLacking() {
	lacking, free := k.leftOut(), 1+k.pool.Fallbacks-len(k.ranked)
	if lacking == nil || k.bound() || lacking.Strict || free <= 0 {
		return
	}
	others := within(k.allowed, lacking.Others())
	more := k.strategy.Preview(&k.query, k.at, k.endpoints, others, free, &k.others)
	k.ranked = append(slices.Clip(k.ranked), more...)
}

// take opens a lease at the first of the ranked endpoints. Another pick may have taken the
// endpoint's last slot since, or its trial: the next rank takes that into account. It returns false
// if no endpoint takes the request.
func (k *pick) take() bool {
	limit := int64(k.pool.Full.InFlight)
	if k.strategy == k.pool.unlimited {
		limit = 0
	}
	leases := k.picker.leases
	for len(k.ranked) > 0 {
		work := k.ranked[0].Work(&k.query)
		k.foresees(&work)
		k.addFurther(&work)
		if leases.Bounded(k.holder.Gateway) {
			k.picker.metrics.uncounted.WithLabelValues(k.holder.Gateway).Inc()
			return true
		}
		if k.lease = leases.Open(k.ranked[0].Endpoint, k.holder, work, limit, k.at); k.lease == nil {
			k.further.release()
			k.choose(k.strategy)
			continue
		}
		k.lease.AddParts(k.further.leases...)
		k.further.leases = nil
		if limit == 0 || k.picker.confirm(k.ctx, k.ranked[0].Endpoint.Load(), limit) {
			return true
		}
		k.contested = k.ranked[0].Endpoint.Load().Total()
		k.lease.Release()
		k.lease.Done()
		k.lease, k.ranked, k.further, k.verdicts = nil, nil, further{}, nil
	}
	return false
}

// foresees sets what shows whether the server answers.
func (k *pick) foresees(w *endpoint.Work) {
	kind := k.request.Facts.Kind
	if k.request.Facts.Size == 0 { // the body is not read
		kind = request.KindOf(k.request.Headers.Header(":path"))
	}
	w.Generates, w.Held = generates(kind), k.at.Sub(k.started)+k.waited
}

// generates reports whether the answers to requests of a kind have tokens.
func generates(of request.Kind) bool {
	switch of {
	case request.ChatCompletions, request.Completions, request.Responses, request.Messages,
		request.Generate, request.GRPCGenerate:
		return true
	}
	return false
}

// leased is lease for a reader.
func leased(r *Record) string { return r.Lease }

// counted has an answer name the lease of its request.
func (k *pick) counted(a *extproc.Answer) {
	a.Pool, a.Lease = k.pool.Name, extproc.Lease{Owner: k.picker.leases.Owner(), Number: k.lease.Number()}
}
