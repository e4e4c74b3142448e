package schedule

// leastRequest is the scorer of the strategy "least-request". Its cost is the number of requests in flight.
type leastRequest struct{}

func (leastRequest) score(_ *Request, c []Candidate) {
	for i := range c {
		c[i].Cost = float64(c[i].State.InFlight)
	}
}

func (leastRequest) explain(_ *Request, c []Candidate) []map[string]float64 {
	out := make([]map[string]float64, len(c))
	for i := range c {
		out[i] = map[string]float64{"in-flight": float64(c[i].State.InFlight)}
	}
	return out
}
