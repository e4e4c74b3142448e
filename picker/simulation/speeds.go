package simulation

import (
	"math"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// config is the configuration of a server of a scenario: Speeds has the prefill rates of the
// servers, in turn.
func (s *Scenario) config(server int) ServerConfig {
	c := s.Server
	if len(s.Speeds) > 0 {
		c.PrefillRate = s.Speeds[server%len(s.Speeds)]
	}
	return c
}

// LearnedRates plays a scenario of one of Production's strategies, and returns the prefill rate of
// each server as the first picker has learned it; 0: it has not.
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

// know has the pickers of a scenario know the rates of its servers.
func (s *Scenario) know(policies []Policy) {
	for _, p := range policies {
		of, ok := p.(*production)
		for i := 0; ok && i < len(of.snapshot.Endpoints); i++ {
			of.snapshot.Endpoints[i].Load().SetReported(s.config(i).PrefillRate, time.Unix(0, math.MaxInt64))
		}
	}
}
