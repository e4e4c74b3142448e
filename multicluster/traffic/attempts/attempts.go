package attempts

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	maxMembers = 10_000
	// maxKept bounds the number of stored requests. So many take at most 4 MiB, and arrive in 80 s
	// at 100 requests per second.
	maxKept = 8192
	// maxID bounds the ID of a stored request, in bytes.
	maxID       = 64
	forgetAfter = 10 * time.Minute
)

// Traffic counts the requests that were sent to an exporting cluster, by outcome.
type Traffic struct {
	Served   uint64 // responses with a status below 500
	Failed   uint64 // another status, or no response
	Declined uint64 // requests that no server began
	Spilled  uint64 // requests of any outcome that a pool spilled
	// Bytes is the size of the response bodies of Served. FirstByte is the sum of their times to
	// the first byte.
	Bytes     uint64
	FirstByte time.Duration
}

func (t *Traffic) count(a *accesslog.Attempt, spilled bool) {
	switch {
	case a.Declined:
		t.Declined++
	case a.Canceled && a.Status == 0:
		return
	case a.Status > 0 && a.Status < 500:
		t.Served++
		t.Bytes += uint64(max(a.Bytes, 0))
		t.FirstByte += max(a.FirstByte, 0)
	default:
		t.Failed++
	}
	if spilled {
		t.Spilled++
	}
}

func (t *Traffic) add(o *Traffic) {
	t.Served += o.Served
	t.Failed += o.Failed
	t.Declined += o.Declined
	t.Spilled += o.Spilled
	t.Bytes += o.Bytes
	t.FirstByte += o.FirstByte
}

// Config configures a Counter.
type Config struct {
	// Allowed reports whether Penstock has configured the Envoys of a Gateway with Envoy clusters
	// for a pool.
	Allowed func(gateway string, pool objectid.Target) bool
	// Exists reports whether an import still has an exporting cluster.
	Exists func(objectid.Target) bool
	Now    func() time.Time // nil: time.Now
}

// Counter counts and stores the outcomes of requests to exporting clusters. It is a
// prometheus.Collector.
type Counter struct {
	cfg Config

	mu      sync.Mutex
	members map[objectid.Target]*member
	kept    []kept
	next    int // index of the oldest of maxKept requests
}

type member struct {
	Traffic
	last time.Time
}

type kept struct {
	accesslog.Attempt
	to      objectid.Target
	spilled bool
}

// New makes a Counter.
func New(c Config) *Counter {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Counter{cfg: c, members: map[objectid.Target]*member{}}
}

// Count counts a finished request, which an Envoy's access log reports (picker.Config.Attempts).
func (c *Counter) Count(a accesslog.Attempt) {
	to, spilled := exportingCluster(&a)
	through, also := spilledThrough(&a)
	if also {
		to = through
	}
	if to.Member == "" || !c.allowed(a.Gateway, to) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[to]
	if m == nil {
		if len(c.members) >= maxMembers {
			return
		}
		m = &member{}
		c.members[to] = m
	}
	if m.last = c.cfg.Now(); also {
		m.Spilled++
		return
	}
	m.count(&a, spilled)
	if a.Leased {
		return
	}
	a.Request, a.There, a.Details = short(a.Request), short(a.There), strings.Clone(a.Details)
	a.Cluster, a.Route, a.Host, a.Served = "", "", "", ""
	k := kept{Attempt: a, to: to, spilled: spilled}
	if len(c.kept) < maxKept {
		c.kept = append(c.kept, k)
		return
	}
	c.kept[c.next] = k
	c.next = (c.next + 1) % maxKept
}

// exportingCluster returns the exporting cluster that received a request. to.Member is "" for this
// cluster, and for an import with several clusters; spilled then reports whether a pool spilled the
// request to it.
func exportingCluster(a *accesslog.Attempt) (to objectid.Target, spilled bool) {
	if !a.Member.IsZero() {
		return a.Member, false
	}
	hop, ok := model.ParseHopID(a.Route)
	if to = hop.Target(); ok && to.Member != "" {
		return to, false
	}
	cluster, _ := model.ParseClusterID(a.Cluster)
	return cluster.Pool(), ok && hop.Import && hop.Member == ""
}

// spilledThrough returns the exporting cluster that served a request that a pool spilled to an
// import with several clusters.
func spilledThrough(a *accesslog.Attempt) (to objectid.Target, ok bool) {
	if hop, known := model.ParseHopID(a.Route); !known || !hop.Import || hop.Member != "" {
		return to, false
	}
	name, _ := strings.CutPrefix(a.Served, "envoy://"+model.HopListener+"/")
	hop, ok := model.ParseHopID(name)
	to = hop.Target()
	return to, ok && to.Member != ""
}

// allowed reports whether a Gateway's Envoys have Envoy clusters for an exporting cluster, or for
// the whole import.
func (c *Counter) allowed(gateway string, id objectid.Target) bool {
	whole := objectid.Target{Pool: id.Pool, Import: true}
	return gateway == "" || c.cfg.Allowed(gateway, id) || c.cfg.Allowed(gateway, whole)
}

func short(id string) string { return strings.Clone(id[:min(len(id), maxID)]) }

// The caller holds mu.
func (c *Counter) each(f func(objectid.Target, *member)) {
	now := c.cfg.Now()
	for id, m := range c.members {
		if now.Sub(m.last) > forgetAfter && !c.cfg.Exists(id) {
			delete(c.members, id)
			continue
		}
		f(id, m)
	}
}

// Traffic returns the sums over all imports, by exporting cluster.
func (c *Counter) Traffic() map[string]Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]Traffic{}
	c.each(func(id objectid.Target, m *member) {
		sum := out[id.Member]
		sum.add(&m.Traffic)
		out[id.Member] = sum
	})
	return out
}

// Records returns the stored requests with the request ID q.Request, newest first. It returns nil
// if q.Request is "".
func (c *Counter) Records(q picker.Picks) (out []*picker.Record) {
	if q.Request == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.kept {
		a := &c.kept[(c.next+len(c.kept)-1-i)%len(c.kept)]
		if a.Request != q.Request[:min(len(q.Request), maxID)] || !q.Of(a.to.String()) {
			continue
		}
		r := &picker.Record{
			Time: a.Began, Pool: a.to.String(), Request: a.Request, Gateway: a.Gateway, Result: picker.ResultSent,
			Sent: &picker.SentTo{Declined: a.Declined, Details: a.Details, There: a.There, Spilled: a.spilled},
			Outcome: &picker.Outcome{Ended: true, Status: a.Status, Headers: a.Headers, Begun: a.FirstByte,
				Took: a.Took, Canceled: a.Canceled},
		}
		if a.Reached && a.At.IsValid() {
			r.Outcome.Served = a.At.String()
		}
		out = append(out, r)
	}
	return out
}

var (
	requestsDesc = prometheus.NewDesc("penstock_import_ended_requests_total",
		"Requests that ended at an exporting cluster of an import, by outcome: served, failed (status 500 and above, "+
			"or no response), or declined (no server there began it: it goes on to another cluster or spill "+
			"target, if one is left).", []string{"import", "cluster", "outcome"}, nil)
	spilledDesc = prometheus.NewDesc("penstock_import_spilled_requests_total",
		"Requests that ended at an exporting cluster of an import, of any outcome, which a pool here has spilled.",
		[]string{"import", "cluster"}, nil)
	bytesDesc = prometheus.NewDesc("penstock_import_response_bytes_total",
		"Bytes of the bodies of the responses that the exporting cluster of an import has served.",
		[]string{"import", "cluster"}, nil)
	firstByteDesc = prometheus.NewDesc("penstock_import_first_byte_seconds_total",
		"Total time to the first byte of the response's body of all requests that the exporting cluster of an import "+
			"has served.", []string{"import", "cluster"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Counter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, spilledDesc, bytesDesc, firstByteDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Before the first request it returns no series.
func (c *Counter) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each(func(id objectid.Target, m *member) {
		count := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v,
				append([]string{id.Pool.String(), id.Member}, labels...)...)
		}
		count(requestsDesc, float64(m.Served), "served")
		count(requestsDesc, float64(m.Failed), "failed")
		count(requestsDesc, float64(m.Declined), "declined")
		count(spilledDesc, float64(m.Spilled))
		count(bytesDesc, float64(m.Bytes))
		count(firstByteDesc, m.FirstByte.Seconds())
	})
}
