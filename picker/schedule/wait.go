package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Wait is what a request of another cluster finds at a pool, by the strategy "load".
type Wait struct {
	// Least is the cost of the endpoint that costs least for a request without a prompt, in seconds.
	Least float64
	// Servers are the endpoints that take requests. Without any, Least and Rate are 0.
	Servers int
	// Rate at which one of them reads prompts in the mean, in tokens a second.
	Rate float64
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
