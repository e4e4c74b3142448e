package picker

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/picker/scoring"
)

// score calls the pool's external scorers concurrently, and sets their scores. It ends no pick.
func score(k *pick) {
	pool, r := k.pool, &k.query
	if len(pool.scorers) == 0 || k.working == nil {
		return
	}
	r.External = make([][]float64, len(pool.scorers))
	list := pool.snapshot.Endpoints
	pool.strategy.Candidates(r, time.Now(), list, k.allowed, &k.scratch,
		func(c []schedule.Candidate, state func(*endpoint.Endpoint) *endpoint.State) {
			if len(c) == 0 {
				return
			}
			question := scoring.Ask(pool.Name, r, c, state)
			var all sync.WaitGroup
			for i, s := range pool.scorers {
				all.Go(func() {
					outcome := scoring.Skipped
					if s != nil {
						var answer []float64
						var err error
						if answer, outcome, err = s.Score(k.ctx, question); err != nil {
							k.picker.config.Log.Debug("a scorer did not answer", "pool", pool.Name, "error", err)
						}
						if answer != nil {
							r.External[i] = byPlace(c, answer, len(list))
						}
					}
					k.picker.metrics.scores.WithLabelValues(pool.Name, string(outcome)).Inc()
				})
			}
			all.Wait()
		})
}

func byPlace(c []schedule.Candidate, scores []float64, n int) []float64 {
	out := make([]float64, n)
	for k := range c {
		out[c[k].Place()] = scores[k]
	}
	return out
}
