package picker

import (
	"github.com/penstock-project/penstock/picker/extproc"
)

// find sets the pool, the target, the span, and the count of the pool's picks. It ends a request
// for an unknown pool, and a request for the list of models if there is a model.
func find(k *pick) {
	p, r := k.picker, k.request
	k.pool = p.pool(r.Pool)
	switch {
	case k.listModels():
	case k.pool != nil:
		k.enter()
		k.target = k.pool.target
		k.span = p.span(k.ctx, r, k.started)
	case listsAlone(r):
		k.decide(extproc.Answer{Pass: true}, "")
	case r.Pool != "":
		p.metrics.unknown.Inc()
		// Another picker process may have read this pool already.
		k.decide(extproc.Answer{Unavailable: true, Message: "this picker has no pool " + r.Pool}, "")
	default:
		p.metrics.unknown.Inc()
		k.decide(immediate(503, ReasonUnknownPool, "this picker has no default pool, and the gateway named none"), "")
	}
}

// decide ends a pick with an answer. The pool's metrics and records count the pick under result, or
// ignore the pick if result is "".
func (k *pick) decide(a extproc.Answer, result string) {
	k.answer, k.result, k.over = a, result, true
}

func found(r *Record) string { return "pool " + r.Pool + ", strategy " + r.Strategy }
