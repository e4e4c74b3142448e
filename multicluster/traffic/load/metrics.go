package load

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/multicluster/selection"
)

var (
	requestsDesc = prometheus.NewDesc("penstock_selection_requests",
		"Requests in flight that this process sent to the cluster of an import.", []string{"import", "cluster"}, nil)
	waitDesc = prometheus.NewDesc("penstock_selection_reported_wait_seconds",
		"Wait of a request at the least loaded server of the cluster, by its last report. A cluster that does "+
			"not report has no series.", []string{"import", "cluster"}, nil)
	firstByteDesc = prometheus.NewDesc("penstock_selection_first_byte_seconds",
		"Mean time to the first byte of the cluster's recent response bodies, less the round trip, for an "+
			"import by Latency. A cluster without recent responses has no series.", []string{"import", "cluster"}, nil)
	ageDesc = prometheus.NewDesc("penstock_selection_report_age_seconds",
		"Time since the last report of the cluster. A cluster that never reported has no series.",
		[]string{"import", "cluster"}, nil)
	roundTripDesc = prometheus.NewDesc("penstock_selection_round_trip_seconds",
		"Round trip to the cluster, measured on the connection to the member; 0 while it is unknown.",
		[]string{"import", "cluster"}, nil)
	serversDesc = prometheus.NewDesc("penstock_selection_servers",
		"Servers of the cluster that take requests: by its last report, by its picker's metrics page, or as "+
			"its exporter declares them. A cluster with an unknown number has no series.",
		[]string{"import", "cluster"}, nil)
	barredDesc = prometheus.NewDesc("penstock_selection_barred",
		"1 if the cluster comes last: it declined a request less than 10 s ago, is silent, or has no server.",
		[]string{"import", "cluster"}, nil)
	blocksDesc = prometheus.NewDesc("penstock_selection_prompt_blocks",
		"Prompt blocks that any gateway is known to have sent to the cluster.", []string{"import", "cluster"}, nil)
	arrivedDesc = prometheus.NewDesc("penstock_selection_arrived_requests_total",
		"Requests to the exported pool for which LeastLoad in another cluster chose this one, by members that request "+
			"the pool's load.", []string{"pool", "member"}, nil)
)

// Describe implements prometheus.Collector.
func (l *Loads) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, waitDesc, firstByteDesc, ageDesc, roundTripDesc, serversDesc,
		barredDesc, blocksDesc, arrivedDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It returns no series if this cluster chooses among no
// clusters, and no member requests its load.
func (l *Loads) Collect(out chan<- prometheus.Metric) {
	l.collectArrived(out)
	l.mu.RLock()
	byName := make(map[string][]selection.Standing, len(l.imports))
	for _, c := range l.imports {
		byName[c.pool.String()] = c.load.Standings(time.Now())
	}
	l.mu.RUnlock()
	for name, standings := range byName {
		for _, s := range standings {
			gauge := func(d *prometheus.Desc, value float64) {
				out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, name, s.Name)
			}
			barred := 0.0
			if s.Barred != "" {
				barred = 1
			}
			gauge(requestsDesc, float64(s.InFlight))
			gauge(roundTripDesc, s.RoundTrip.Seconds())
			gauge(barredDesc, barred)
			gauge(blocksDesc, float64(s.Blocks))
			servers := s.Servers
			if s.Report != nil {
				gauge(waitDesc, s.Report.Least)
				servers = s.Report.Servers
			}
			if servers > 0 || s.Report != nil || s.Empty {
				gauge(serversDesc, float64(servers))
			}
			if s.FirstByte > 0 {
				gauge(firstByteDesc, s.FirstByte)
			}
			if s.Age > 0 {
				gauge(ageDesc, s.Age.Seconds())
			}
		}
	}
}

func (l *Loads) collectArrived(out chan<- prometheus.Metric) {
	l.pools.mu.Lock()
	defer l.pools.mu.Unlock()
	for pool, c := range l.pools.byPool {
		for _, member := range c.to {
			if member == own {
				continue
			}
			sum := uint64(0)
			for _, n := range c.sentBy(member) {
				sum += n
			}
			out <- prometheus.MustNewConstMetric(arrivedDesc, prometheus.CounterValue, float64(sum), pool.String(),
				member)
		}
	}
}
