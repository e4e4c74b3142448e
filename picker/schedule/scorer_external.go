package schedule

import (
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// external implements external-scorer: another process's score (Request.External), or 0.
type external struct{ number int }

func (e external) add(v view, weight float64) {
	if e.number >= len(v.r.External) {
		return
	}
	scores := v.r.External[e.number]
	for i := range v.c {
		if lot := int(v.c[i].lot); lot < len(scores) {
			v.c[i].Score += weight * within(scores[lot])
		}
	}
}

// Candidates calls f with the endpoints among which Rank would choose, and with a function that
// returns an endpoint's state. Candidate.Cached is set. f must not keep the arguments.
func (s *Strategy) Candidates(r *Request, now time.Time, list []endpoint.Endpoint,
	allowed func(*endpoint.Endpoint) bool, scratch *Scratch,
	f func([]Candidate, func(*endpoint.Endpoint) *endpoint.State)) {
	c := s.candidates(r, now, list, allowed, scratch)
	s.match(r, c, scratch)
	at, state := endpoint.At(now), &scratch.state
	f(c, func(e *endpoint.Endpoint) *endpoint.State {
		e.ReadState(state, at)
		return state
	})
}

// Place returns the candidate's index in the list that Rank, Preview or Candidates got.
func (c *Candidate) Place() int { return int(c.lot) }
