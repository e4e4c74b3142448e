package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/request"
)

// take opens a lease at the first ranked endpoint. If another pick has just taken this endpoint's
// last place or its trial, take ranks again.
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

func (k *pick) foresees(w *endpoint.Work) {
	kind := k.request.Facts.Kind
	if k.request.Facts.Size == 0 {
		kind = request.KindOf(k.request.Headers.Header(":path"))
	}
	w.Generates, w.Held, w.Pool = generates(kind), k.at.Sub(k.started)+k.waited, k.pool.snapshot
}

func generates(k request.Kind) bool {
	switch k {
	case request.ChatCompletions, request.Completions, request.Responses, request.Messages,
		request.Generate, request.GRPCGenerate:
		return true
	}
	return false
}

// awaitEnd calls try whenever a request of the pool has ended, until try returns true. All such
// waits of a pick together last at most Config.EndWait.
func (k *pick) awaitEnd(try func() bool) bool {
	began := time.Now()
	defer func() { k.endWaited += time.Since(began) }()
	return k.pool.slots.Wait(k.ctx, k.picker.config.EndWait-k.endWaited, try)
}
