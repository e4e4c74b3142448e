package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/request"
)

// keepNote records the pick: in metrics, in its span, in the ring of notes and in the pool's
// sample, and with the lease, so that the access log completes it. It changes nothing of the
// answer. An answer that is no pick is not recorded.
func keepNote(k *pick) {
	if k.result == "" {
		return
	}
	k.pool.counters.count(k.result, time.Since(k.started))
	if k.span != nil {
		k.endSpan()
	}
	number := k.picker.records.notes.add(k)
	if k.lease != nil {
		k.tag(number)
	}
	k.picker.metrics.upstream.picked(k)
	if k.sampled || k.pool.history.due(k.started, len(k.pool.snapshot.Endpoints)) {
		k.pool.history.add(k.record())
	}
}

// tag keeps with a lease what its end reports.
func (k *pick) tag(number uint64) {
	tag := endpoint.Tag{Number: number, Model: k.model, Tokens: k.tokens, Unread: k.unread, Line: k.line(),
		Early: k.lease.Early()}
	if k.charge != nil {
		tag.Charge = k.charge
	}
	// A 404 for a response that is not there shows nothing of the model.
	if f := &k.request.Facts; hasModel(f.Kind) && f.Previous == (request.ResponseID{}) {
		tag.Asks = servedModel(f)
	}
	if k.compared > 0 {
		tag.Cached = int(k.choices[0].cached)
	}
	k.lease.SetTag(tag)
}
