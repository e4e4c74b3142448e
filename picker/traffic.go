package picker

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/accesslog"
)

// Traffic is what became of the requests for which this process named a cluster first, or which that cluster has served after others.
type Traffic struct {
	Served uint64 `json:"served"` // answered with a status below 500
	Failed uint64 `json:"failed"` // with another status, or not at all, by the last cluster that had them
	// Declined requests went on to another cluster, or to where the import spills.
	Declined uint64 `json:"declined"`
	// Bytes of the responses' bodies, and the total time to the first byte, of Served.
	Bytes     uint64        `json:"bytes"`
	FirstByte time.Duration `json:"firstByte"`
}

// add sums up.
func (t *Traffic) add(o *Traffic) {
	t.Served += o.Served
	t.Failed += o.Failed
	t.Declined += o.Declined
	t.Bytes += o.Bytes
	t.FirstByte += o.FirstByte
}

// traffic is that of an import's clusters, by name. Those that have left the import are dropped with its next change.
type traffic struct {
	mu sync.Mutex
	of map[string]*Traffic
}

// newTraffic keeps what an import's clusters had.
func newTraffic(c *Clusters, old *pool) *traffic {
	t := &traffic{of: make(map[string]*Traffic, len(c.List))}
	if old != nil && old.traffic != nil {
		t = old.traffic
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	has := make(map[string]bool, len(c.List))
	for _, m := range c.List {
		if has[m.Name] = true; t.of[m.Name] == nil {
			t.of[m.Name] = &Traffic{}
		}
	}
	for name := range t.of {
		if !has[name] {
			delete(t.of, name)
		}
	}
	return t
}

// ended counts a request whose pick named a hop first.
func (pool *pool) ended(first string, e accesslog.Entry) {
	t := pool.traffic
	t.mu.Lock()
	defer t.mu.Unlock()
	last := first
	if e.Served != "" {
		last = e.Served
	}
	for _, m := range pool.Clusters.List {
		is := t.of[m.Name]
		if is == nil { // it has left
			continue
		}
		if m.Hop == first && last != first {
			is.Declined++
		}
		switch {
		case m.Hop != last || e.Canceled && e.Status == 0:
		case e.Status > 0 && e.Status < 500:
			is.Served++
			is.Bytes += uint64(max(e.Bytes, 0))
			is.FirstByte += e.FirstByte
		default:
			is.Failed++
		}
	}
}

// eachTraffic calls f for the clusters of an import that had requests.
func (pool *pool) eachTraffic(f func(cluster string, is Traffic)) {
	if pool.traffic == nil {
		return
	}
	pool.traffic.mu.Lock()
	defer pool.traffic.mu.Unlock()
	for name, is := range pool.traffic.of {
		if *is != (Traffic{}) {
			f(name, *is)
		}
	}
}

// Traffic returns the sums of all imports, by cluster.
func (p *Picker) Traffic() map[string]Traffic {
	out := map[string]Traffic{}
	for _, pool := range p.pools.Load().byName {
		pool.eachTraffic(func(cluster string, is Traffic) {
			sum := out[cluster]
			sum.add(&is)
			out[cluster] = sum
		})
	}
	return out
}

var (
	clusterRequestsDesc = prometheus.NewDesc("penstock_selection_ended_requests_total",
		"Requests that ended, of an import whose clusters this process names for each request, by outcome: served, failed (status 500 and above, or no response), or declined (it was named first, and the request went on to another cluster or spill target).", []string{"import", "cluster", "outcome"}, nil)
	clusterBytesDesc = prometheus.NewDesc("penstock_selection_response_bytes_total",
		"Bytes of the bodies of the responses that the cluster of an import has served.", []string{"import", "cluster"}, nil)
	clusterFirstByteDesc = prometheus.NewDesc("penstock_selection_first_byte_seconds_total",
		"Total time to the first byte of all requests that the cluster of an import has served.", []string{"import", "cluster"}, nil)
)

// collectTraffic sends the series of an import's clusters. There is none before the first request.
func (pool *pool) collectTraffic(ch chan<- prometheus.Metric) {
	pool.eachTraffic(func(cluster string, is Traffic) {
		count := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{strings.TrimSuffix(pool.Name, "@"), cluster}, labels...)...)
		}
		count(clusterRequestsDesc, float64(is.Served), "served")
		count(clusterRequestsDesc, float64(is.Failed), "failed")
		count(clusterRequestsDesc, float64(is.Declined), "declined")
		count(clusterBytesDesc, float64(is.Bytes))
		count(clusterFirstByteDesc, is.FirstByte.Seconds())
	})
}
