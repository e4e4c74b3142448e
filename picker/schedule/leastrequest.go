package schedule

import "github.com/penstock-project/penstock/picker/endpoint"

// leastRequest is the scorer of strategy "least-request": requests in flight.
type leastRequest struct{}

func (leastRequest) cost(_ *Request, s *endpoint.State, _ *Candidate) float64 {
	return float64(s.InFlight)
}

func (leastRequest) explain(_ *Request, s *endpoint.State, _ *Candidate) map[string]float64 {
	return map[string]float64{"in-flight": float64(s.InFlight)}
}
