package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// Scorers divide by the largest value among the candidates, so that a cost compares endpoints whatever the scale of the
// values. A stale endpoint gets the worst value of the fresh ones. Stale endpoints then differ by their requests in flight
// only, and staleScorer puts them after every fresh one: a dead server whose page can't be read does not look idle.

var queueScorer = scorer{"queue", func(c []Candidate, out []float64) {
	relative(c, out, func(s *endpoint.State) (float64, bool) { return queue(s), s.Fresh })
}}

// kvScorer does not normalise: the series is a fraction already.
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

// loadScorer compares all requests at a server, those of other gateways included: the last scrape's and those sent since,
// but at least this process's requests in flight.
var loadScorer = scorer{"in-flight", func(c []Candidate, out []float64) {
	relative(c, out, func(s *endpoint.State) (float64, bool) {
		if !s.Fresh {
			return float64(s.InFlight), true
		}
		return max(float64(s.InFlight), s.Queue+s.Running+float64(s.Unseen)), true
	})
}}

// staleScorer puts endpoints without fresh metrics after those with them. If all are stale, it has no effect.
var staleScorer = scorer{"stale", func(c []Candidate, out []float64) {
	for i := range c {
		out[i] = 0
		if !c[i].State.Fresh {
			out[i] = 1
		}
	}
}}

// inFlightScorer compares this process's requests in flight.
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
