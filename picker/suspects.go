package picker

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Suspect is a server that picks avoid because it seems to fail. It gets one request at a time, or
// none if it is silent.
type Suspect struct {
	Pool   objectid.Target    `json:"pool"`
	Server string             `json:"server"`
	Kind   schedule.Suspicion `json:"kind"`
	Why    string             `json:"why"` // for display
}

// Suspects returns the suspect servers of all pools.
func (p *Picker) Suspects() (all []Suspect) {
	now := time.Now()
	for _, pool := range p.pools.now.Load().byName {
		for i, kind := range pool.suspects(now) {
			if kind != "" {
				e := &pool.snapshot.Endpoints[i]
				all = append(all, Suspect{pool.ID, e.Text, kind, why(kind, e)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Suspect) int { return a.Pool.Compare(b.Pool) })
	return all
}

func (pool *pool) suspects(now time.Time) []schedule.Suspicion {
	if pool.strategy == nil {
		return nil
	}
	return pool.strategy.Suspects(now, pool.snapshot.Endpoints)
}

func why(kind schedule.Suspicion, e *endpoint.Endpoint) string {
	switch kind {
	case schedule.Silent:
		if s := e.Load().Silence(); s != nil { // nil if the server has just shown progress
			return s.String()
		}
	case schedule.Failing:
		last := e.Load().LastFailure()
		return last.String()
	case schedule.Stale:
		return "its metrics page is stale (" + cmp.Or(e.Problem(), "it was not read lately") + ")"
	}
	return string(kind)
}

var suspectDesc = prometheus.NewDesc("penstock_picker_suspect_endpoints",
	"Endpoints of the pool that are suspect, by kind: silent (they send no token, and get no request), failing (their "+
		"requests fail), stale (their metrics page is, and no request has succeeded since). Failing and "+
		"stale ones get "+
		"one request at a time. penstock status names each, and why.", []string{"pool", "kind"}, nil)

func (pool *pool) collectSuspects(ch chan<- prometheus.Metric, now time.Time) {
	counts := map[schedule.Suspicion]int{}
	for _, kind := range pool.suspects(now) {
		counts[kind]++
	}
	for _, kind := range schedule.Suspicions {
		ch <- prometheus.MustNewConstMetric(suspectDesc, prometheus.GaugeValue, float64(counts[kind]), pool.Name,
			string(kind))
	}
}
