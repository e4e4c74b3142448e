package picker

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/request"
)

// keepNote records the pick in metrics, its span, the ring of notes, the pool's sampled records,
// and its lease's tag. It keeps the answer. It ignores answers without a result.
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

func (k *pick) tag(number uint64) {
	tag := endpoint.Tag{Number: number, Model: k.model, Tokens: k.tokens, Unread: k.unread, Line: k.line(),
		Early: k.lease.Early()}
	if k.charge != nil {
		tag.Charge = k.charge
	}
	// A 404 for an unknown response does not show that the model is missing.
	if f := &k.request.Facts; hasModel(f.Kind) && f.Previous == (request.ResponseID{}) {
		tag.Asks = servedModel(f)
	}
	if k.compared > 0 {
		tag.Cached = int(k.choices[0].cached)
	}
	k.lease.SetTag(tag)
}
