package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Objective is the latency that a request asks for, in seconds; 0 means no objective. TTFT is the
// time to the first token, and TPOT the time between two tokens.
type Objective struct{ TTFT, TPOT float64 }

// tokenBytes is the size of a stream event with one token in OpenAI's API, in bytes, without the
// model's name.
const tokenBytes = 210

const (
	whyCapacity  = "has capacity for a sheddable request"
	whyObjective = "can serve a sheddable request within its latency objective"
	whyWait      = "can serve a sheddable request soon enough"
)

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

// foresee sheds a sheddable request that is predicted to be late at the first candidate. In the
// strategy "load", the first candidate misses the objective only if all candidates do.
func (s *Strategy) foresee(r *Request, now time.Time, ranked []Candidate, scratch *Scratch) []Candidate {
	if s.foresees == nil || len(ranked) == 0 {
		return ranked
	}
	first := &ranked[0]
	first.Endpoint.ReadState(&scratch.state, endpoint.At(now))
	s.predict(r, &scratch.state, first)
	if !s.late(r, first) || s.relearn(r, now, ranked, scratch) {
		return ranked
	}
	if scratch.Shed = true; s.load != nil && first.misses {
		scratch.Why, scratch.excess = whyObjective, missed(r.Objective, first)
		return nil
	}
	scratch.Why = whyWait
	scratch.excess = []Excess{
		{Limit: "picker.shedAfter", Unit: "s", Max: s.after, Value: first.TTFT, Endpoint: first.Endpoint.Text},
	}
	return nil
}

// late reports whether the request is sheddable and would be late at c, the best candidate. c.TTFT
// and c.misses must be set.
func (s *Strategy) late(r *Request, c *Candidate) bool {
	return r.Criticality == Sheddable && (s.load != nil && c.misses || s.after > 0 && c.TTFT > s.after)
}

// relearn moves a candidate with outdated predictions to the front, for a request that would be
// shed. The request then measures the candidate's speed again. Strategies without predicted costs
// have already chosen the first candidate, so only this one counts.
func (s *Strategy) relearn(r *Request, now time.Time, ranked []Candidate, scratch *Scratch) bool {
	all, at, found := ranked[:1], endpoint.At(now), -1
	if s.load != nil {
		all = scratch.candidates
	}
	for i := range all {
		c := &all[i]
		if found >= 0 && c.Cost >= all[found].Cost {
			continue
		}
		if c.Endpoint.ReadState(&scratch.state, at); s.outdated(r, c, &scratch.state, at) {
			found = i
		}
	}
	if found < 0 {
		return false
	}
	all[0], all[found] = all[found], all[0]
	all[0].Endpoint.ReadState(&scratch.state, at)
	s.predict(r, &scratch.state, &all[0])
	all[0].Trial, all[0].Relearn = true, true
	return true
}

// inReach is a server's shortest plausible latency, divided by the initially assumed latency.
const inReach = 0.1

// outdated reports whether a request that would be shed should measure this candidate's speed
// again. The candidate's predictions must be outdated. The request's limits must also allow the
// latency that is initially assumed for an empty prompt or, if the server's latency was learned,
// inReach times this assumed latency.
func (s *Strategy) outdated(r *Request, c *Candidate, state *endpoint.State, at endpoint.Moment) bool {
	if !c.Endpoint.Outdated(state, at) {
		return false
	}
	ttft, tpot := (*endpoint.Latency)(nil).Predict(&endpoint.Features{})
	if state.Latency != nil {
		ttft, tpot = inReach*ttft, inReach*tpot
	}
	within := func(limit, least float64) bool { return limit == 0 || limit >= least }
	return within(r.Objective.TTFT, ttft) && within(r.Objective.TPOT, tpot) && within(s.after, ttft)
}

func missed(o Objective, c *Candidate) (all []Excess) {
	if o.TTFT > 0 && c.TTFT > o.TTFT {
		all = append(all,
			Excess{Limit: "the request's TTFT objective", Unit: "ms", Max: 1000 * o.TTFT, Value: 1000 * c.TTFT,
				Endpoint: c.Endpoint.Text})
	}
	if o.TPOT > 0 && c.TPOT > o.TPOT {
		all = append(all,
			Excess{Limit: "the request's TPOT objective", Unit: "ms", Max: 1000 * o.TPOT, Value: 1000 * c.TPOT,
				Endpoint: c.Endpoint.Text})
	}
	return all
}

func (s *Strategy) predict(r *Request, state *endpoint.State, c *Candidate) {
	if s.load == nil { // the scorer "load" sets c.ahead, c.uncached and c.Rate itself
		s.foresees.of(r, state, c)
	}
	c.predict(r, state)
}

func (c *Candidate) predict(r *Request, state *endpoint.State) {
	// A server computes at least one token, even of a cached prompt.
	c.features = endpoint.Features{Prefill: c.ahead + max(c.uncached, 1)/c.Rate, Queue: queue(state),
		InFlight: float64(state.InFlight) + state.OthersRunning}
	c.TTFT, c.TPOT = state.Latency.Predict(&c.features)
	o := &r.Objective
	c.misses = o.TTFT > 0 && c.TTFT > o.TTFT || o.TPOT > 0 && c.TPOT > o.TPOT
}
