package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Objective is the latency that a request asks for, in seconds: to the first token, and between two. 0 asks for nothing.
type Objective struct{ TTFT, TPOT float64 }

// tokenBytes is how many bytes of a streamed response a token takes, without the model's name: an event in the OpenAI API's form.
const tokenBytes = 210

// Why requests are shed.
const (
	whyCapacity  = "has capacity for a sheddable request"
	whyObjective = "can serve a sheddable request within its latency objective"
	whyWait      = "can serve a sheddable request soon enough"
)

// judge marks the candidates that are predicted to miss a request's objective. The others come before them.
func (s *Strategy) judge(r *Request, now time.Time, c []Candidate, scratch *Scratch) {
	if r.Objective == (Objective{}) || s.foresees == nil {
		return
	}
	at := endpoint.At(now)
	for i := range c {
		c[i].Endpoint.ReadState(&scratch.state, at)
		s.predict(r, &scratch.state, &c[i])
	}
}

// foresee predicts the latency at the first of ranked, and sheds a sheddable request that would wait too long there. Of a strategy
// that compares costs, the first misses the request's objective only if all do.
func (s *Strategy) foresee(r *Request, now time.Time, ranked []Candidate, scratch *Scratch) []Candidate {
	if s.foresees == nil || len(ranked) == 0 {
		return ranked
	}
	first := &ranked[0]
	first.Endpoint.ReadState(&scratch.state, endpoint.At(now))
	s.predict(r, &scratch.state, first)
	switch {
	case r.Criticality != Sheddable:
		return ranked
	case s.load != nil && first.misses:
		scratch.Why, scratch.excess = whyObjective, missed(r.Objective, first)
	case s.after > 0 && first.TTFT > s.after:
		scratch.Why = whyWait
		scratch.excess = []Excess{{Limit: "picker.shedAfter", Unit: "s", Max: s.after, Value: first.TTFT, Endpoint: first.Endpoint.Text}}
	default:
		return ranked
	}
	scratch.Shed = true
	return nil
}

// missed returns the parts of an objective that a candidate is predicted to miss, in milliseconds, as requests give them.
func missed(o Objective, c *Candidate) (all []Excess) {
	if o.TTFT > 0 && c.TTFT > o.TTFT {
		all = append(all, Excess{Limit: "the request's TTFT objective", Unit: "ms", Max: 1000 * o.TTFT, Value: 1000 * c.TTFT, Endpoint: c.Endpoint.Text})
	}
	if o.TPOT > 0 && c.TPOT > o.TPOT {
		all = append(all, Excess{Limit: "the request's TPOT objective", Unit: "ms", Max: 1000 * o.TPOT, Value: 1000 * c.TPOT, Endpoint: c.Endpoint.Text})
	}
	return all
}

// predict sets a candidate's latency.
func (s *Strategy) predict(r *Request, state *endpoint.State, c *Candidate) {
	if s.load == nil { // its cost is not computed
		s.foresees.of(r, state, c)
	}
	c.features = endpoint.Features{Prefill: c.ahead + c.uncached/c.rate, Queue: queue(state), InFlight: float64(state.InFlight) + state.OthersRunning}
	c.TTFT, c.TPOT = state.Latency.Predict(&c.features)
	o := &r.Objective
	c.misses = o.TTFT > 0 && c.TTFT > o.TTFT || o.TPOT > 0 && c.TPOT > o.TPOT
}
