package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// Criticality is a request's criticality; "" means Standard.
type Criticality string

const (
	Critical  Criticality = "Critical"
	Standard  Criticality = "Standard"
	Sheddable Criticality = "Sheddable"
)

const (
	criticalQueue  = 50  // Critical requests prefer endpoints with fewer waiting requests
	sheddableQueue = 5   // maximum of waiting requests at an endpoint with capacity
	sheddableKV    = 0.8 // maximum of KV cache usage at an endpoint with capacity
)

const (
	stepStale    = "stale"
	stepLowQueue = "low-queue"
	stepCapacity = "capacity"
	stepLoRA     = "lora"
	stepQueue    = "least-queue"
	stepKV       = "least-kv-cache"
)

// tree is the inference extension's filter tree with InferenceModels. A step that would keep no
// endpoint keeps all.
//
//	Critical:   low-queue -> lora -> least-queue -> least-kv-cache, or if no queue is low
//	            least-queue -> lora -> least-kv-cache
//	Standard:   capacity -> least-queue -> lora -> least-kv-cache
//	Sheddable:  the same, but no endpoint if capacity keeps none
//
// tree picks a random one of the remaining endpoints. For a retry, it runs again with the endpoints
// that it has not yet picked.
type tree struct{ random func() uint64 }

func (t tree) choose(r *Request, _ []endpoint.Endpoint, c []Candidate, states []endpoint.State, n int) []Candidate {
	n = min(n, len(c))
	for i := range n {
		rest := c[i:]
		left := walk(r, rest, states, nil)
		if left == 0 {
			return c[:i]
		}
		k := int(t.random() % uint64(left))
		rest[0], rest[k] = rest[k], rest[0]
	}
	return c[:n]
}

func (t tree) explain(r *Request, _ []endpoint.Endpoint, c []Candidate, states []endpoint.State, verdicts []Verdict) {
	walk(r, c, states, func(c *Candidate, step string) { verdicts[c.lot].Out = step })
}

type branch struct {
	c       []Candidate
	states  []endpoint.State
	dropped func(*Candidate, string) // may be nil
	// fresh counts the endpoints with fresh metrics pages. queue and kv are the worst values of
	// these, which also count for endpoints with stale pages.
	fresh     int
	queue, kv float64
}

// walk moves the endpoints that the tree keeps to the front of c, and returns their number; 0 sheds
// the request.
func walk(r *Request, c []Candidate, states []endpoint.State, dropped func(*Candidate, string)) int {
	b := grow(c, states, dropped)
	if r.Criticality == Critical {
		if b.keep(stepLowQueue, func(c *Candidate) bool { return b.waiting(c) < criticalQueue }) {
			b.lora(r.Model)
			b.leastQueue()
		} else {
			b.leastQueue()
			b.lora(r.Model)
		}
	} else {
		capacity := b.fresh == 0 || b.keep(stepCapacity,
			func(c *Candidate) bool { return b.waiting(c) <= sheddableQueue && b.used(c) <= sheddableKV })
		if !capacity && r.Criticality == Sheddable {
			b.none(stepCapacity)
			return 0
		}
		b.leastQueue()
		b.lora(r.Model)
	}
	b.leastKV()
	return len(b.c)
}

func grow(c []Candidate, states []endpoint.State, dropped func(*Candidate, string)) branch {
	b := branch{c: c, states: states, dropped: dropped}
	for i := range c {
		if s := b.state(&c[i]); s.Fresh {
			b.fresh, b.queue, b.kv = b.fresh+1, max(b.queue, queue(s)), max(b.kv, s.KV)
		}
	}
	if 2*b.fresh >= len(c) {
		b.keep(stepStale, func(c *Candidate) bool { return b.state(c).Fresh })
	}
	return b
}

func (t tree) exceeded(c []Candidate, states []endpoint.State) []Excess {
	b := grow(c, states, nil)
	var waiting, used tally
	for i := range b.c {
		if n := b.waiting(&b.c[i]); n > sheddableQueue {
			waiting.add(n)
		}
		if kv := b.used(&b.c[i]); kv > sheddableKV {
			used.add(100 * kv)
		}
	}
	return used.appendTo(waiting.appendTo(nil, "waiting requests of strategy tree", "", sheddableQueue),
		"KV cache of strategy tree", "%", 100*sheddableKV)
}

func (b *branch) state(c *Candidate) *endpoint.State { return &b.states[c.lot] }

func (b *branch) waiting(c *Candidate) float64 {
	switch {
	case b.state(c).Fresh:
		return queue(b.state(c))
	case b.fresh == 0:
		return float64(b.state(c).InFlight)
	}
	return b.queue
}

func (b *branch) used(c *Candidate) float64 {
	if b.state(c).Fresh {
		return b.state(c).KV
	}
	return b.kv
}

// keep drops the endpoints for which ok is false. If this would drop all, keep returns false
// and drops none.
func (b *branch) keep(step string, ok func(*Candidate) bool) bool {
	kept := 0
	for i := range b.c {
		if ok(&b.c[i]) {
			b.c[kept], b.c[i] = b.c[i], b.c[kept]
			kept++
		}
	}
	if kept == 0 {
		return false
	}
	rest := branch{c: b.c[kept:], dropped: b.dropped}
	rest.none(step)
	b.c = b.c[:kept]
	return true
}

func (b *branch) none(step string) {
	if b.dropped != nil {
		for i := range b.c {
			b.dropped(&b.c[i], step)
		}
	}
	b.c = nil
}

func (b *branch) lora(model string) {
	if model == "" {
		return
	}
	_ = b.keep(stepLoRA, func(c *Candidate) bool { return b.state(c).Adapters.Has(model) }) ||
		b.keep(stepLoRA, func(c *Candidate) bool { return b.state(c).Adapters.Free() })
}

// leastQueue divides the range of queue lengths into as many equal parts as there are endpoints, in
// integer arithmetic. It keeps the endpoints in the lowest part.
func (b *branch) leastQueue() {
	low, high := b.bounds(b.waiting)
	limit := int(low) + (int(high)-int(low))/max(len(b.c), 1)
	b.keep(stepQueue, func(c *Candidate) bool { return int(b.waiting(c)) <= limit })
}

// leastKV does the same with KV cache usage, without integer rounding.
func (b *branch) leastKV() {
	low, high := b.bounds(b.used)
	limit := low + (high-low)/float64(max(len(b.c), 1))
	b.keep(stepKV, func(c *Candidate) bool { return b.used(c) <= limit })
}

func (b *branch) bounds(value func(*Candidate) float64) (low, high float64) {
	for i := range b.c {
		v := value(&b.c[i])
		if i == 0 {
			low, high = v, v
		}
		low, high = min(low, v), max(high, v)
	}
	return low, high
}
