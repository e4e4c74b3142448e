package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

type leastRequest struct{}

func (leastRequest) cost(_ *Request, s *endpoint.State, _ *Candidate) float64 {
	return float64(s.InFlight)
}

func (leastRequest) explain(_ *Request, s *endpoint.State, _ *Candidate) map[string]float64 {
	return map[string]float64{"in-flight": float64(s.InFlight)}
}
