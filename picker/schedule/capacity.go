package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// room counts the endpoints that have capacity by the thresholds of the strategy "tree". Endpoints
// with stale metrics pages do not count.
type room struct {
	fresh, free   int
	waiting, used tally
}

func (m *room) add(s *endpoint.State) {
	if !s.Fresh {
		return
	}
	m.fresh++
	n := queue(s)
	if n > sheddableQueue {
		m.waiting.add(n)
	}
	if s.KV > sheddableKV {
		m.used.add(100 * s.KV)
	}
	if n <= sheddableQueue && s.KV <= sheddableKV {
		m.free++
	}
}

func (m *room) none(candidates int) bool {
	return m.fresh > 0 && m.free == 0 && 2*m.fresh >= candidates
}

func (s *Strategy) shed(r *Request, c []Candidate, scratch *Scratch) bool {
	if !s.shedsFull || r.Criticality != Sheddable || !scratch.room.none(len(c)) {
		return false
	}
	scratch.Shed, scratch.Why = true, whyCapacity
	excess := scratch.room.waiting.appendTo(nil, "waiting requests for Sheddable ones", "", sheddableQueue)
	scratch.excess = scratch.room.used.appendTo(excess, "KV cache for Sheddable requests", "%", 100*sheddableKV)
	return true
}
