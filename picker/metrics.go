package picker

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/flow"
	"github.com/penstock-project/penstock/picker/prefix"
)

type metrics struct {
	picks      *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	unknown    prometheus.Counter
	outOfRange *prometheus.CounterVec
	uncounted  *prometheus.CounterVec
	denied     *prometheus.CounterVec
	uploads    *prometheus.CounterVec
	shadows    *prometheus.CounterVec
	regret     *prometheus.CounterVec
	scores     *prometheus.CounterVec
	waits      *prometheus.HistogramVec
	stages     *prometheus.CounterVec
	lacking    *prometheus.CounterVec
	processed  processMetrics
	upstream   *upstreamMetrics
}

// poolMetrics are a pool's metrics. The pool's first pick creates them: otherwise most series on
// the metrics page would belong to unused pools.
type poolMetrics struct {
	seconds func() prometheus.Observer
	vec     *prometheus.CounterVec
	waits   *prometheus.HistogramVec
	name    string
	results sync.Map
}

var (
	inFlightDesc = prometheus.NewDesc("penstock_picker_in_flight_requests",
		"Requests in flight that this picker sent to the pool's endpoints.", []string{"pool"}, nil)
	endpointsDesc = prometheus.NewDesc("penstock_picker_endpoints",
		"Endpoints of the pool by the state of their metrics: fresh, stale, idle (not scraped, because the pool has "+
			"no requests), draining, unread (the pool's strategy reads no pages).", []string{"pool", "state"}, nil)
	problemsDesc = prometheus.NewDesc("penstock_picker_page_problems",
		"Endpoints of the pool whose metrics page has a problem: it cannot be read, or lacks series, or has values "+
			"that are ignored. penstock explain shows which.", []string{"pool"}, nil)
	silentDesc = prometheus.NewDesc("penstock_picker_silent_endpoints",
		"Endpoints of the pool that accept requests and send no token: they get no request until a probe gets one. "+
			"penstock explain shows since when.", []string{"pool"}, nil)
	requestsDesc = prometheus.NewDesc("penstock_picker_endpoint_requests_total",
		"Requests that ended, by endpoint and outcome: served, or failed (status 500 and above, no response, or a "+
			"stream that an error ends).", []string{"pool", "endpoint", "outcome"}, nil)
	firstByteDesc = prometheus.NewDesc("penstock_picker_endpoint_first_byte_seconds_total",
		"Total time to the first byte of the response's body of all requests served.", []string{"pool", "endpoint"},
		nil)
	failuresDesc = prometheus.NewDesc("penstock_picker_scrape_failures_total",
		"Scrapes of metrics pages that failed.", nil, nil)
	bodiesDesc = prometheus.NewDesc("penstock_picker_held_body_bytes",
		"Bytes of request bodies that are held for picks.", nil, nil)
	unreadDesc = prometheus.NewDesc("penstock_picker_unread_bodies_total",
		"Requests whose body was not read because of --picker-held-bodies, by outcome: picked (by load alone), or "+
			"rejected (503, because it must be read).", []string{"outcome"}, nil)
	excessDesc = prometheus.NewDesc("penstock_picker_excess_calls_total",
		"Calls of other clusters that were ended, because their cluster had 16,384 open at this process.", nil, nil)
	rendersDesc = prometheus.NewDesc("penstock_picker_renders_total",
		"Prompts whose token IDs were needed (picker.kvEvents.render), by outcome: cached, rendered, failed (an "+
			"error, or late), or skipped (the servers have failed too often, or too many calls "+
			"are open).", []string{"outcome"}, nil)
	reportsDesc = prometheus.NewDesc("penstock_picker_kv_event_endpoints",
		"Endpoints of the pool by what their KV events show: reported (all that they have cached), partly reported, "+
			"or guessed (nothing).", []string{"pool", "state"}, nil)
	eventFailuresDesc = prometheus.NewDesc("penstock_picker_kv_event_failures_total",
		"Connections for KV events that could not be made or have ended, by endpoint; penstock explain shows why.",
		[]string{"pool", "endpoint"}, nil)
	waitingDesc = prometheus.NewDesc("penstock_picker_flow_requests",
		"Requests that flow control holds now, by priority.", []string{"pool", "priority"}, nil)
	waitingBytesDesc = prometheus.NewDesc("penstock_picker_flow_bytes",
		"Bytes of their bodies, by content-length.", []string{"pool", "priority"}, nil)
	flowSaturationDesc = prometheus.NewDesc("penstock_picker_flow_saturation_ratio",
		"Saturation of a pool with flow control, as last measured: at 1 and more its requests wait.", []string{"pool"},
		nil)
	frozenDesc = prometheus.NewDesc("penstock_picker_headers_timeouts_total",
		"Streams that another server of the pool has answered, because the first one sent no headers in time.",
		[]string{"pool"}, nil)
	leasesDesc = prometheus.NewDesc("penstock_picker_open_leases",
		"Requests in flight that this process counts: its own picks, and picks of a process that is gone.", nil, nil)
)

func newMetrics(r prometheus.Registerer, p *Picker) (*metrics, error) {
	m := &metrics{
		picks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_picks_total",
			Help: "Picks by pool and result: picked, spilled, relayed, relay_open, or the reason of an " +
				"immediate response."}, []string{"pool", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "penstock_picker_pick_seconds",
			Help:    "Time from the last byte that a pick needs to its response.",
			Buckets: []float64{5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 2e-2, 0.1, 0.5, 2, 10}},
			[]string{"pool"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{Name: "penstock_picker_unknown_pool_total",
			Help: "Requests for pools that this picker does not have."}),
		outOfRange: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "penstock_picker_relay_out_of_range_addresses_total",
				Help: "Addresses named by remote pickers outside the declared CIDRs and ports."}, []string{"pool"}),
	}
	m.uncounted = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_uncounted_picks_total",
		Help: "Picks that do not count as in flight, because their Gateway has 65,536 requests in flight."},
		[]string{"gateway"})
	m.denied = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_denied_calls_total",
		Help: "Calls with the key of a Gateway whose routes do not use the pool; without a gateway, calls from other " +
			"clusters for a pool that is not exported."}, []string{"gateway"})
	m.uploads = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_rejected_uploads_total",
		Help: "Requests with a large body that were answered 503, because an Envoy of the Gateway holds too many."},
		[]string{"gateway"})
	m.scores = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "penstock_picker_external_scores_total",
		Help: "Calls to external scorers, by outcome: scored, failed (an error, no answer within 5 ms, or a wrong " +
			"number of scores), or skipped (it fails, or there are too many calls or " +
			"candidates)."}, []string{"pool", "outcome"})
	m.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "penstock_picker_flow_wait_seconds",
		Help: "Time that requests have waited for flow control, by priority and outcome: admitted, rejected (429, " +
			"as many wait as may), expired (429, after ttlSeconds), no_endpoints (503), canceled (the client has " +
			"left). A request that is admitted at once is not counted.",
		Buckets: []float64{0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320}},
		[]string{"pool", "priority", "outcome"})
	m.shadows, m.regret = newShadowMetrics()
	m.stages, m.lacking = newStageMetrics()
	m.processed = newProcessMetrics()
	if p.config.Protocol.Upstream {
		var err error
		if m.upstream, err = newUpstreamMetrics(r, p); err != nil {
			return nil, err
		}
	}
	if r == nil {
		return m, nil
	}
	all := []prometheus.Collector{m.picks, m.seconds, m.unknown, m.outOfRange, m.uncounted, m.denied, m.uploads,
		m.shadows, m.regret, m.scores, m.waits, m.stages, m.lacking, poolCollector{p}}
	for _, c := range append(all, m.processed.collectors()...) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) pool(name string) *poolMetrics {
	seconds := sync.OnceValue(func() prometheus.Observer { return m.seconds.WithLabelValues(name) })
	return &poolMetrics{seconds: seconds, vec: m.picks, waits: m.waits, name: name}
}

func (m *metrics) remove(name string) {
	labels := prometheus.Labels{"pool": name}
	m.picks.DeletePartialMatch(labels)
	m.seconds.DeletePartialMatch(labels)
	m.outOfRange.DeletePartialMatch(labels)
	m.shadows.DeletePartialMatch(labels)
	m.regret.DeletePartialMatch(labels)
	m.scores.DeletePartialMatch(labels)
	m.waits.DeletePartialMatch(labels)
	m.stages.DeletePartialMatch(labels)
	m.lacking.DeletePartialMatch(labels)
	m.processed.remove(labels)
}

func (m *poolMetrics) count(result string, took time.Duration) {
	counter, ok := m.results.Load(result)
	if !ok {
		counter, _ = m.results.LoadOrStore(result, m.vec.WithLabelValues(m.name, result))
	}
	counter.(prometheus.Counter).Inc()
	m.seconds().Observe(took.Seconds())
}

func (m *poolMetrics) waited(o flow.Outcome, priority int, d time.Duration) {
	m.waits.WithLabelValues(m.name, strconv.Itoa(priority), o.String()).Observe(d.Seconds())
}

type poolCollector struct{ picker *Picker }

func (poolCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- inFlightDesc
	ch <- endpointsDesc
	ch <- problemsDesc
	ch <- silentDesc
	ch <- suspectDesc
	ch <- servingDesc
	ch <- requestsDesc
	ch <- firstByteDesc
	ch <- rateDesc
	ch <- failuresDesc
	ch <- bodiesDesc
	ch <- unreadDesc
	ch <- excessDesc
	ch <- leasesDesc
	ch <- frozenDesc
	for _, d := range []*prometheus.Desc{modelRequestsDesc, modelFirstByteDesc, modelTokensDesc, modelOutputDesc,
		queueDesc, saturationDesc} {
		ch <- d
	}
	ch <- breakerDesc
	ch <- waitingDesc
	ch <- waitingBytesDesc
	ch <- flowSaturationDesc
	ch <- rendersDesc
	ch <- reportsDesc
	ch <- eventFailuresDesc
}

func (c poolCollector) Collect(ch chan<- prometheus.Metric) {
	out := sink(ch)
	now := time.Now()
	for name, pool := range c.picker.pools.now.Load().byName {
		out.endpoints(name, pool)
		out.queues(name, pool)
		pool.collectSuspects(ch, now)
	}
	c.picker.collectServing(ch)
	out.count(failuresDesc, float64(c.picker.registry.ScrapeFailures()))
	own, others := c.picker.wire.bodies, c.picker.wire.imports
	out.gauge(bodiesDesc, int(own.Held()+others.Held()))
	out.count(unreadDesc, float64(own.Unread()+others.Unread()), "picked")
	out.count(unreadDesc, float64(own.Rejected()+others.Rejected()), "rejected")
	out.count(excessDesc, float64(c.picker.wire.calls.Excess()))
	out.gauge(leasesDesc, c.picker.leases.Len())
	c.picker.records.usage.collect(ch)
	r := c.picker.prompts.renderer
	for outcome, n := range map[string]*atomic.Uint64{
		"cached": &r.Cached, "rendered": &r.Rendered, "failed": &r.Failed, "skipped": &r.Skipped,
	} {
		if n := n.Load(); n > 0 {
			out.count(rendersDesc, float64(n), outcome)
		}
	}
}

type sink chan<- prometheus.Metric

func (s sink) gauge(d *prometheus.Desc, v int, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
}

func (s sink) count(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sink) endpoints(name string, pool *pool) {
	var inFlight int64
	var fresh, stale, idle, draining, unread, problems, silent int
	var use saturated
	for i := range pool.snapshot.Endpoints {
		e := &pool.snapshot.Endpoints[i]
		state := e.State()
		if served, failed, firstByte := e.Load().Totals(); served+failed > 0 { // no series before the first request
			s.count(requestsDesc, float64(served), name, e.Text, "served")
			s.count(requestsDesc, float64(failed), name, e.Text, "failed")
			s.count(firstByteDesc, firstByte.Seconds(), name, e.Text)
		}
		collectRate(s, name, e.Text, &state)
		inFlight += e.Load().InFlight()
		use.add(&state)
		if e.Problem() != "" {
			problems++
		}
		if state.Silent != nil {
			silent++
		}
		switch {
		case e.Draining:
			draining++
		case !e.HasPage():
			unread++
		case state.Fresh:
			fresh++
		case state.Idle:
			idle++
		default:
			stale++
		}
	}
	if use.endpoints > 0 {
		s <- prometheus.MustNewConstMetric(queueDesc, prometheus.GaugeValue, use.queue, name)
		s <- prometheus.MustNewConstMetric(saturationDesc, prometheus.GaugeValue, use.use/use.endpoints, name)
	}
	s.gauge(inFlightDesc, int(inFlight), name)
	s.gauge(endpointsDesc, fresh, name, "fresh")
	s.gauge(endpointsDesc, stale, name, "stale")
	s.gauge(endpointsDesc, idle, name, "idle")
	s.gauge(endpointsDesc, draining, name, "draining")
	s.gauge(endpointsDesc, unread, name, "unread")
	s.gauge(problemsDesc, problems, name)
	s.gauge(silentDesc, silent, name)
}

func (s sink) queues(name string, pool *pool) {
	if pool.KVEvents != nil {
		for k, n := range pool.knowledge() {
			s.gauge(reportsDesc, n, name, prefix.Knowledge(k).String())
		}
		pool.events.Failures(func(server netip.AddrPort, times uint64) {
			if times > 0 { // no series before the first failure
				s.count(eventFailuresDesc, float64(times), name, server.String())
			}
		})
	}
	if pool.processor != nil {
		open := 0
		if pool.processor.Open() {
			open = 1
		}
		s.gauge(breakerDesc, open, name)
	}
	if pool.queue != nil {
		for _, b := range pool.queue.Bands() {
			s.gauge(waitingDesc, b.Requests, name, strconv.Itoa(b.Priority))
			s.gauge(waitingBytesDesc, int(b.Bytes), name, strconv.Itoa(b.Priority))
		}
		s <- prometheus.MustNewConstMetric(flowSaturationDesc, prometheus.GaugeValue, pool.queue.Room().Saturation,
			name)
	}
	s.count(frozenDesc, float64(pool.storm.requests.Load()), name)
}
