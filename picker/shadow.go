package picker

import (
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// A pool's shadow is a second strategy. It chooses for every request before the pool's own does, by the same state, and without
// effect: it opens no lease, and what it chose counts nowhere but in metrics.

// addShadow gives a pool its shadow. An old one that is the same stays: strategies learn.
func (pool *pool) addShadow(o schedule.Options, old *pool) (err error) {
	if pool.Shadow == "" {
		return nil
	}
	if old != nil && old.shadow != nil && old.Shadow == pool.Shadow && old.Full == pool.Full {
		pool.shadow = old.shadow
		return nil
	}
	pool.shadow, err = schedule.New(schedule.Options{Name: pool.Shadow, Full: o.Full, Hashing: o.Hashing, Random: mathrand.Uint64, Prefixes: o.Prefixes})
	if err != nil {
		return fmt.Errorf("pool %s: shadow: %w", pool.Name, err)
	}
	return nil
}

// shadowed is what a shadow has chosen. Its memory has the costs of all candidates.
type shadowed struct {
	working *working // nil without shadow
	chosen  *endpoint.Endpoint
	cost    float64
}

// foreshadow has the pool's shadow choose for a request.
func (c *candidates) foreshadow() (s shadowed) {
	if c.pool.shadow == nil {
		return s
	}
	s.working = workings.Get().(*working)
	request := c.request
	if best := c.pool.shadow.Rank(&request, time.Now(), c.pool.snapshot.Endpoints, c.allowed, 1, &s.working.memory); len(best) > 0 {
		s.chosen, s.cost = best[0].Endpoint, best[0].Cost
	}
	return s
}

// judge compares a pick with the shadow's choice.
func (c *candidates) judge(s shadowed, m *metrics) {
	if s.working == nil {
		return
	}
	defer workings.Put(s.working)
	if len(c.ranked) == 0 || s.chosen == nil {
		return
	}
	agrees := "no"
	if c.ranked[0].Endpoint == s.chosen {
		agrees = "yes"
	}
	m.shadows.WithLabelValues(c.pool.Name, c.pool.Shadow, agrees).Inc()
	all := s.working.memory.Candidates()
	for i := range all {
		if all[i].Endpoint == c.ranked[0].Endpoint {
			m.regret.WithLabelValues(c.pool.Name, c.pool.Shadow).Add(max(all[i].Cost-s.cost, 0))
		}
	}
}

func newShadowMetrics() (shadows, regret *prometheus.CounterVec) {
	shadows = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_shadow_picks_total",
		Help: "Picks of pools with a shadow, by the shadow's strategy and whether it would have picked the same endpoint: yes or no."}, []string{"pool", "shadow", "agrees"})
	regret = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_shadow_regret_total",
		Help: "How much more the picks of a pool cost than the choices of its shadow, by the shadow's own costs: seconds for load, requests for least-request, and 0 for strategies without costs."}, []string{"pool", "shadow"})
	return shadows, regret
}
