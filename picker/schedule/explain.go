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
	// Problem is why the last scrape failed.
	Problem string `json:"problem,omitempty"`
	// Out names the filter that removed the endpoint ("subset", "draining", "full"); "" for a candidate.
	Out string `json:"out,omitempty"`
	// Trial is "due" for a suspect endpoint that the next request may try, and "wait" for one that gets a request only if there
	// is no other endpoint.
	Trial string `json:"trial,omitempty"`
	// Cost is in seconds for strategy load, and in requests for least-request; Costs are its parts. Only for candidates.
	Costs map[string]float64 `json:"costs,omitempty"`
	Cost  float64            `json:"cost"`
	// Cached is how many tokens of the prompt the server has cached.
	Cached int `json:"cached,omitempty"`
}

// Describe evaluates every endpoint of list as Rank would, and chooses none.
func (s *Strategy) Describe(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool) []Verdict {
	verdicts := make([]Verdict, len(list))
	var candidates []Candidate
	var at []int
	eligible, fresh := 0, 0
	for i := range list {
		e := &list[i]
		v := Verdict{Address: e.Text, Pod: e.Pod, Problem: e.Problem()}
		e.ReadState(&v.State, now)
		out := allowed != nil && !allowed(e)
		if !out && !e.Draining {
			eligible++
			if v.State.Fresh {
				fresh++
			}
		}
		if out {
			v.Out = "subset"
		} else if f := s.filteredBy(e, &v.State); f != "" {
			v.Out = f
		} else {
			candidates = append(candidates, Candidate{Endpoint: e, State: v.State})
			at = append(at, i)
		}
		verdicts[i] = v
	}
	s.match(r, candidates, &Scratch{})
	s.explain(r, candidates, eligible, fresh, func(k int) *Verdict { return &verdicts[at[k]] })
	return verdicts
}

// explain completes the candidates' verdicts.
func (s *Strategy) explain(r *Request, c []Candidate, eligible, fresh int, verdict func(int) *Verdict) {
	if s.scorer != nil {
		s.scorer.score(r, c)
		for k, costs := range s.scorer.explain(r, c) {
			verdict(k).Costs, verdict(k).Cost, verdict(k).Cached = costs, c[k].Cost, c[k].Cached
		}
	}
	if !s.trials {
		return
	}
	suspect(c, eligible, fresh)
	for k := range c {
		if c[k].Trial {
			verdict(k).Trial = "due"
		} else if c[k].last {
			verdict(k).Trial = "wait"
		}
	}
}

// filteredBy returns the name of the filter that removes an endpoint, or "".
func (s *Strategy) filteredBy(e *endpoint.Endpoint, state *endpoint.State) string {
	for i := range s.filters {
		if !s.filters[i].keep(e, state) {
			return s.filters[i].name
		}
	}
	return ""
}

// Preview ranks as Rank does, but does not advance the round-robin position.
func (s *Strategy) Preview(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool, n int, scratch *Scratch) []Candidate {
	if s.turn == nil {
		return s.Rank(r, now, list, allowed, n, scratch)
	}
	c := s.candidates(now, list, allowed, scratch)
	if len(c) == 0 {
		return nil
	}
	return inTurn(c, s.turn.Load(), n)
}
