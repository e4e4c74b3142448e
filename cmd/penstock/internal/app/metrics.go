package app

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

func newMetrics(r prometheus.Registerer, board *status.Board) (changes prometheus.Histogram, err error) {
	changes = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "penstock_change_seconds",
		Help: "Time from reading a change to its commit for proxies, or to finding that it concerns none. Its " +
			"count is the number of changes.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 3, 11),
	})
	return changes, register(r, changes, findings{board})
}

const (
	metricsClients = 4
	metricsTimeout = 10 * time.Second
)

// MetricsPage serves /metrics to at most metricsClients clients at a time, and 503 to others. A
// slow client counts for at most two timeouts.
func MetricsPage(g prometheus.Gatherer) http.Handler {
	// promhttp's limit also counts pages that it still collects after their timeout.
	page := promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: metricsClients, Timeout: metricsTimeout})
	served := make(chan struct{}, metricsClients)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case served <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many clients read this page at the same time", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-served }()
		conn := http.NewResponseController(w)
		_ = conn.SetWriteDeadline(time.Now().Add(2 * metricsTimeout)) // fails only in tests
		page.ServeHTTP(w, r)
		_ = conn.Flush() // flush now, because the deadline ends with this request
		_ = conn.SetWriteDeadline(time.Time{})
	})
}

func registerCluster(r prometheus.Registerer, c *cluster) error {
	return register(r,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_leader",
			Help: "1 in the process that writes to the API server, 0 in all others.",
		},
			func() float64 { return oneIf(c.leader.Leading()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "penstock_lagging",
			Help: "1 in a process that has no contact to the API server: proxies keep what they have and get " +
				"nothing new.",
		},
			func() float64 { return oneIf(c.lagging()) }),
	)
}

func register(r prometheus.Registerer, all ...prometheus.Collector) error {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

type findings struct{ board *status.Board }

var findingsDesc = prometheus.NewDesc("penstock_findings", "Findings that penstock status lists now, by severity: "+
	"error is something written that does not take effect, warning is a probable mistake.", []string{"severity"}, nil)

func (findings) Describe(out chan<- *prometheus.Desc) { out <- findingsDesc }

func (f findings) Collect(out chan<- prometheus.Metric) {
	n := f.board.Findings()
	for _, s := range []report.Severity{report.Error, report.Warning} {
		out <- prometheus.MustNewConstMetric(findingsDesc, prometheus.GaugeValue, float64(n[s]), string(s))
	}
}
