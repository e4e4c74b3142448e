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
	// Costs by scorer, 0 (best) to 1, and their weighted mean; only for candidates of strategies with scorers.
	Costs map[string]float64 `json:"costs,omitempty"`
	Cost  float64            `json:"cost"`
}

// Describe evaluates every endpoint of list as Rank would, and chooses none.
func (s *Strategy) Describe(r *Request, now time.Time, list []endpoint.Endpoint, allowed func(*endpoint.Endpoint) bool) []Verdict {
	verdicts := make([]Verdict, len(list))
	var candidates []Candidate
	var at []int
	for i := range list {
		e := &list[i]
		v := Verdict{Address: e.Text, Pod: e.Pod, State: e.StateAt(now), Problem: e.Problem()}
		if allowed != nil && !allowed(e) {
			v.Out = "subset"
		} else if f := s.filteredBy(e, &v.State); f != "" {
			v.Out = f
		} else {
			candidates = append(candidates, Candidate{Endpoint: e, State: v.State})
			at = append(at, i)
		}
		verdicts[i] = v
	}
	costs := make([]float64, len(candidates))
	for _, w := range s.scorers {
		w.cost(candidates, costs)
		for k, i := range at {
			if verdicts[i].Costs == nil {
				verdicts[i].Costs = map[string]float64{}
			}
			verdicts[i].Costs[w.name] = costs[k]
			verdicts[i].Cost += w.weight * costs[k]
		}
	}
	return verdicts
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
