package picker

import (
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// The choices of a pool's shadow strategy count only in metrics.

func (pool *pool) addShadow(o schedule.Options, old *pool) (err error) {
	if pool.Shadow == "" {
		return nil
	}
	if old != nil && old.shadow != nil && old.Shadow == pool.Shadow && old.Full == pool.Full {
		pool.shadow = old.shadow
		return nil
	}
	pool.shadow, err = schedule.New(schedule.Options{
		Name: pool.Shadow, Full: o.Full, Hashing: o.Hashing, Random: mathrand.Uint64, Prefixes: o.Prefixes,
	})
	if err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	return nil
}

type shadowed struct {
	working *working
	chosen  *endpoint.Endpoint
	cost    float64
}

func (k *pick) foreshadow() {
	if k.pool.shadow == nil {
		return
	}
	s := &k.shadow
	s.working = workings.Get().(*working)
	request := k.query
	if best := k.pool.shadow.Rank(&request, time.Now(), k.endpoints, k.allowed, 1, &s.working.scratch); len(best) > 0 {
		s.chosen, s.cost = best[0].Endpoint, best[0].Cost
	}
}

func (k *pick) judge() {
	s, m := &k.shadow, k.picker.metrics
	if len(k.ranked) == 0 || s.chosen == nil {
		return
	}
	agrees := "no"
	if k.ranked[0].Endpoint == s.chosen {
		agrees = "yes"
	}
	m.shadows.WithLabelValues(k.pool.Name, k.pool.Shadow, agrees).Inc()
	all := s.working.scratch.Candidates()
	for i := range all {
		if all[i].Endpoint == k.ranked[0].Endpoint {
			m.regret.WithLabelValues(k.pool.Name, k.pool.Shadow).Add(max(all[i].Cost-s.cost, 0))
		}
	}
}

func newShadowMetrics() (shadows, regret *prometheus.CounterVec) {
	shadows = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_shadow_picks_total",
		Help: "Picks of pools with a shadow, by the shadow's strategy and whether it would have picked the same " +
			"endpoint: yes or no."}, []string{"pool", "shadow", "agrees"})
	regret = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_shadow_regret_total",
		Help: "How much more the picks of a pool cost than the choices of its shadow, by the shadow's own costs: " +
			"seconds for load, requests for least-request, and 0 for strategies " +
			"without costs."}, []string{"pool", "shadow"})
	return shadows, regret
}
