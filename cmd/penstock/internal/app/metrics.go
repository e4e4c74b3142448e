package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// changeMetrics are those of the way from objects to the cache. Proxies and picks have their own, where they are served.
type changeMetrics struct {
	changes prometheus.Histogram // seconds
}

func newChangeMetrics(r prometheus.Registerer, board *status.Board, cluster *cluster) (*changeMetrics, error) {
	m := &changeMetrics{changes: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "penstock_change_seconds", Help: "From what was read of a change to its commit for proxies, or to finding that it means nothing to them. Its count is the number of changes.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11),
	})}
	all := []prometheus.Collector{m.changes, findings{board}}
	if cluster != nil {
		all = append(all,
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "penstock_leader", Help: "1 in the process that writes to the API server. Of all processes one has it."},
				func() float64 { return oneIf(cluster.leader.Leading()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "penstock_lagging", Help: "1 in a process that does not hear from the API server: what proxies have stays, and nothing new comes."},
				func() float64 { return oneIf(cluster.lagging()) }),
		)
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// findings counts what is said about objects when the page is read.
type findings struct{ board *status.Board }

var findingsDesc = prometheus.NewDesc("penstock_findings",
	"What penstock status lists now, by severity: error is something that does not take effect, warning what may not be meant.", []string{"severity"}, nil)

// Describe implements prometheus.Collector.
func (findings) Describe(out chan<- *prometheus.Desc) { out <- findingsDesc }

// Collect implements prometheus.Collector.
func (f findings) Collect(out chan<- prometheus.Metric) {
	n := f.board.Findings()
	for _, s := range []report.Severity{report.Error, report.Warning} {
		out <- prometheus.MustNewConstMetric(findingsDesc, prometheus.GaugeValue, float64(n[s]), string(s))
	}
}
