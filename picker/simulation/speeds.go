package simulation

import (
	"math"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

func (s *Scenario) config(server int) ServerConfig {
	c := s.Server
	if len(s.Speeds) > 0 {
		c.PrefillRate = s.Speeds[server%len(s.Speeds)]
	}
	return c
}

// LearnedRates simulates a scenario with one of Production's strategies. It returns each server's
// prefill rate, in tokens a second, as the first picker learned it, or 0.
func LearnedRates(s Scenario) (rates []float64) {
	r := newRun(s, new(clock))
	r.arrive(0)
	for r.clock.next() {
	}
	var state endpoint.State
	list := r.policies[0].(*production).snapshot.Endpoints
	for i := range list {
		list[i].ReadState(&state, endpoint.At(epoch.Add(r.clock.now)))
		rates = append(rates, state.Rate)
	}
	return rates
}

func (s *Scenario) know(policies []Policy) {
	for _, p := range policies {
		known, ok := p.(*production)
		for i := 0; ok && i < len(known.snapshot.Endpoints); i++ {
			known.snapshot.Endpoints[i].Load().SetReported(s.config(i).PrefillRate, time.Unix(0, math.MaxInt64))
		}
	}
}
