package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Wait is the predicted wait of another cluster's request at a pool with the strategy "load".
type Wait struct {
	// Least is the lowest cost of a request without a prompt, in seconds.
	Least float64
	// Servers counts the endpoints that accept requests; if 0, so are Least and Rate.
	Servers int
	// Rate is the mean prefill rate of these Servers, in tokens a second.
	Rate float64
}

// Queued counts the requests that wait in the picker for a server of the pool.
type Queued struct {
	Requests, Tokens int // Tokens is the sum of the prompts
	Oldest           time.Duration
}

// Behind adds to w.Least the wait behind requests queued in the picker: the time to read their
// prompts, but at least the wait of the oldest so far.
func (w *Wait) Behind(q Queued) {
	if q.Requests == 0 {
		return
	}
	rate := w.Rate
	if rate <= 0 {
		rate = defaultRate
	}
	work := float64(q.Tokens)/rate + PerRequest*float64(q.Requests)
	w.Least += max(work/float64(max(w.Servers, 1)), q.Oldest.Seconds())
}

// Wait predicts the wait at the endpoints of list, by their states at the time now. ok is true only
// for the strategy "load".
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
