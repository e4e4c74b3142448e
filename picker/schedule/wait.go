package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Wait is what a request of another cluster finds at a pool, by the strategy "load".
type Wait struct {
	// Least is the cost of the endpoint that costs least for a request without a prompt, in
	// seconds.
	Least float64
	// Servers are the endpoints that take requests. Without any, Least and Rate are 0.
	Servers int
	// Rate at which one of them reads prompts in the mean, in tokens a second.
	Rate float64
}

// Queued is what waits in the picker for a server of the pool, before a request that arrives now.
type Queued struct {
	Requests, Tokens int // of their prompts
	// Oldest is how long one of them has waited.
	Oldest time.Duration
}

// Behind adds the wait in the picker. A request that arrives now waits until the prompts of those
// before it are read, and longer than the oldest of them has waited: it goes after them.
func (w *Wait) Behind(q Queued) {
	if q.Requests == 0 {
		return
	}
	rate := w.Rate
	if rate <= 0 {
		rate = defaultRate
	}
	work := float64(q.Tokens)/rate + perRequest*float64(q.Requests)
	w.Least += max(work/float64(max(w.Servers, 1)), q.Oldest.Seconds())
}

// Wait evaluates list at now. ok is false for other strategies, whose costs are not in seconds.
func (s *Strategy) Wait(now time.Time, list []endpoint.Endpoint) (w Wait, ok bool) {
	if s.load == nil {
		return w, false
	}
	at := endpoint.At(now)
	var state endpoint.State
	for i := range list {
		e := &list[i]
		e.ReadState(&state, at)
		if s.filteredBy(e, &state) != "" {
			continue
		}
		var c Candidate
		p := s.load.of(&Request{}, &state, &c)
		if cost := p.backlog + p.inFlight + p.others; w.Servers == 0 || cost < w.Least {
			w.Least = cost
		}
		w.Servers++
		w.Rate += c.Rate
	}
	if w.Servers > 0 {
		w.Rate /= float64(w.Servers)
	}
	return w, true
}
