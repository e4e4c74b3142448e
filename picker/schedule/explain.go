package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// Verdict is a strategy's evaluation of one endpoint.
type Verdict struct {
	Address string         `json:"address"`
	Pod     string         `json:"pod,omitempty"`
	State   endpoint.State `json:"state"`
	// Problem is why the last scrape of the metrics page failed, or which series it ignored. The
	// caller of Describe adds other reasons of a stale State.
	Problem string `json:"problem,omitempty"`
	// Prefixes describes what KV events report about the server's cache. Describe's caller sets it.
	Prefixes string `json:"prefixes,omitempty"`
	// Out is "" for a candidate. Otherwise it is the filter or the step of strategy "tree" that
	// removed the endpoint, "over-load" for too many requests in flight (strategy "chwbl"), or
	// "silent" for a server that sends no tokens.
	Out string `json:"out,omitempty"`
	// Trial is "speed" if a sheddable request may measure the endpoint's speed again. For a suspect
	// endpoint it is "due" if the next request may try the endpoint, or "wait" if not yet.
	Trial string `json:"trial,omitempty"`
	// Suspect is why the endpoint is suspect, or "". Failure is its last failed request, or nil.
	Suspect Suspicion         `json:"suspect,omitempty"`
	Failure *endpoint.Failure `json:"failure,omitempty"`
	// Cost is in seconds for the strategy "load", in requests for "least-request". Costs are its
	// parts by name. Both are set only for candidates.
	Costs map[string]float64 `json:"costs,omitempty"`
	Cost  *float64           `json:"cost,omitempty"`
	// Score is the weighted sum of Scores, in the strategy "plugins".
	Score  float64 `json:"score,omitempty"`
	Scores []Score `json:"scores,omitempty"`
	// Place is the endpoint's place on the hash ring, from 1 at the request's hash; 0 if unknown.
	Place int `json:"place,omitempty"`
	// TTFT and TPOT are the predicted times to the first token and between two tokens, in seconds;
	// 0 if unknown. Late means that they miss the request's objective.
	TTFT float64 `json:"ttft,omitempty"`
	TPOT float64 `json:"tpot,omitempty"`
	Late bool    `json:"late,omitempty"`
	// Session means that the endpoint has the request's session.
	Session bool `json:"session,omitempty"`
	// Cached counts cached tokens of the prompt.
	Cached int `json:"cached,omitempty"`
}

// Score is one plugin's score of an endpoint, 0 to 1.
type Score struct {
	Plugin string  `json:"plugin"`
	Score  float64 `json:"score"`
	Weight float64 `json:"weight"`
}

// Describe evaluates every endpoint of list as Rank would, but does not choose.
func (s *Strategy) Describe(r *Request, now time.Time, list []endpoint.Endpoint,
	allowed func(*endpoint.Endpoint) bool) []Verdict {
	s = s.of(r)
	var scratch Scratch
	c := s.candidates(r, now, list, allowed, &scratch)
	s.match(r, c, &scratch)
	if s.trials {
		suspect(c, scratch.Eligible, scratch.fresh)
	}
	chosen := c
	verdicts, at := make([]Verdict, len(list)), endpoint.At(now)
	suspects := s.Suspects(now, list)
	for i := range list {
		e := &list[i]
		v := &verdicts[i]
		v.Address, v.Pod, v.Problem = e.Text, e.Pod, e.Problem()
		e.ReadState(&v.State, at)
		if v.Suspect = suspects[i]; v.Suspect == Failing {
			last := e.Load().LastFailure()
			v.Failure = &last
		}
		switch {
		case allowed != nil && !allowed(e):
			v.Out = "subset"
		case len(c) > 0 && c[0].Endpoint == e:
			s.explain(r, &c[0], v, at)
			c = c[1:]
		default:
			if v.Out = s.filteredBy(e, &v.State); v.Out == "" && v.State.Silent != nil {
				v.Out = silence
			} else if v.Out == "" {
				v.Out = full // full since the candidates were chosen, a moment ago
			}
		}
	}
	if s.chooser != nil {
		if len(chosen) > 0 {
			s.chooser.explain(r, list, chosen, scratch.states, verdicts)
		}
	}
	return verdicts
}

func (s *Strategy) explain(r *Request, c *Candidate, v *Verdict, at endpoint.Moment) {
	v.Cached = c.Cached
	if s.scorer != nil {
		cost := s.scorer.cost(r, &v.State, c)
		v.Cost, v.Costs = &cost, s.scorer.explain(r, &v.State, c)
	}
	if s.foresees != nil {
		s.predict(r, &v.State, c)
		v.TTFT, v.TPOT, v.Late = c.TTFT, c.TPOT, c.misses
	}
	switch {
	case c.last && v.State.Silent == nil:
		v.Trial = "wait"
	case s.foresees != nil && s.late(r, c) && s.outdated(r, c, &v.State, at):
		v.Trial = "speed"
	case c.Trial:
		v.Trial = "due"
	}
}

func (s *Strategy) filteredBy(e *endpoint.Endpoint, state *endpoint.State) string {
	for i := range s.filters {
		if !s.filters[i].keep(e, state) {
			return s.filters[i].name
		}
	}
	return ""
}

// Preview ranks like Rank, but does not advance the round-robin position.
func (s *Strategy) Preview(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool,
	n int, scratch *Scratch) []Candidate {
	s = s.of(r)
	var turn uint64
	if s.turn != nil {
		turn = s.turn.Load()
	}
	return s.rank(r, now, list, allowed, n, turn, scratch)
}
