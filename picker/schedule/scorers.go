package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// Scorers divide by the largest value among the candidates, so that a cost says how an endpoint compares, whatever the size
// of its numbers. A stale endpoint takes the worst value of the fresh ones: it is then told apart by our own requests
// alone among its like, and staleScorer puts it behind every fresh one: a dead server whose page cannot be read does not
// look idle.

var queueScorer = scorer{"queue", func(c []Candidate, out []float64) {
	relative(c, out, func(s *endpoint.State) (float64, bool) { return queue(s), s.Fresh })
}}

// kvScorer needs no normalising: the series is a share already.
var kvScorer = scorer{"kv-cache", func(c []Candidate, out []float64) {
	worst := worstOf(c, kv)
	for i := range c {
		v, known := kv(&c[i].State)
		if !known {
			v = worst
		}
		out[i] = min(v, 1)
	}
}}

func kv(s *endpoint.State) (float64, bool) { return s.KV, s.Fresh }

// loadScorer compares the requests at a server: what its page showed and what we sent since, other gateways' requests
// among them; at least our own under way.
var loadScorer = scorer{"in-flight", func(c []Candidate, out []float64) {
	relative(c, out, func(s *endpoint.State) (float64, bool) {
		if !s.Fresh {
			return float64(s.InFlight), true
		}
		return max(float64(s.InFlight), s.Queue+s.Running+float64(s.Unseen)), true
	})
}}

// staleScorer puts endpoints without fresh metrics behind those that have them. Where no endpoint has any, it says nothing.
var staleScorer = scorer{"stale", func(c []Candidate, out []float64) {
	for i := range c {
		out[i] = 0
		if !c[i].State.Fresh {
			out[i] = 1
		}
	}
}}

// inFlightScorer compares our own requests under way.
var inFlightScorer = scorer{"in-flight", func(c []Candidate, out []float64) {
	relative(c, out, func(s *endpoint.State) (float64, bool) { return float64(s.InFlight), true })
}}

func relative(c []Candidate, out []float64, of func(*endpoint.State) (v float64, known bool)) {
	worst := worstOf(c, of)
	for i := range c {
		v, known := of(&c[i].State)
		switch {
		case worst == 0:
			out[i] = 0
		case known:
			out[i] = v / worst
		default:
			out[i] = 1
		}
	}
}

func worstOf(c []Candidate, of func(*endpoint.State) (v float64, known bool)) float64 {
	worst := 0.0
	for i := range c {
		if v, known := of(&c[i].State); known {
			worst = max(worst, v)
		}
	}
	return worst
}
