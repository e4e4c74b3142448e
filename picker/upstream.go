package picker

import (
	"cmp"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/extproc"
)

// upstreamMetrics are those of llm-d's EPP (v0.10) that have a meaning here, with its names, labels and buckets: dashboards and alerts for
// that EPP go on. A nil one measures nothing.
type upstreamMetrics struct {
	picker                     *Picker
	requests, errors, attempts *prometheus.CounterVec
	stages                     *prometheus.CounterVec
	running                    *prometheus.GaugeVec
	seconds, firstToken, input *prometheus.HistogramVec
	scheduling                 prometheus.Histogram
	models, fairness           boundedLabel
}

var upstreamSeconds = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

var upstreamTokens = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536, 131072, 262144, 524288, 1048576}

func newUpstreamMetrics(r prometheus.Registerer, p *Picker) (*upstreamMetrics, error) {
	labels := []string{"model_name", "target_model_name", "fairness_id", "priority"}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "llm_d_epp_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "llm_d_epp_" + name, Help: help, Buckets: buckets}, labels)
	}
	u := &upstreamMetrics{
		picker:   p,
		requests: counter("request_total", "Requests that a model server was picked for (llm-d's name).", labels...),
		errors:   counter("request_error_total", "Requests that ended with an error, by its status (llm-d's name).", append(labels, "error_code")...),
		attempts: counter("scheduler_attempts_total", "Picks, by status and endpoint (llm-d's name).", "status", "target_model_name", "endpoint_name", "namespace", "port"),
		stages:   counter("disagg_decision_total", "Picks by the stages of the request (llm-d's name).", "plugin_name", "plugin_type", "model_name", "decision_type"),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "llm_d_epp_request_running",
			Help: "Requests in flight (llm-d's name)."}, labels),
		seconds:    histogram("request_duration_seconds", "Time from a request's pick to the end of its response (llm-d's name).", upstreamSeconds, labels...),
		firstToken: histogram("request_ttft_seconds", "Time from a request's pick to the first byte of its response's body (llm-d's name). Gateways that do not send bodies as they arrive have none.", upstreamSeconds[:24], append(labels, "streaming")...),
		input:      histogram("request_input_tokens", "Tokens of prompts, a quarter of their bytes unless token IDs are given (llm-d's name).", upstreamTokens, labels...),
		scheduling: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "llm_d_epp_scheduler_e2e_duration_seconds",
			Help:    "Time that picks take (llm-d's name).",
			Buckets: []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1}}),
	}
	if r == nil {
		return u, nil
	}
	for _, c := range []prometheus.Collector{u.requests, u.errors, u.attempts, u.stages, u.running, u.seconds, u.firstToken, u.input, u.scheduling, upstreamPools{p}} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// boundedLabel bounds the values of a label that clients choose.
type boundedLabel struct {
	mu   sync.Mutex
	seen map[string]string
}

// of returns the value, or otherModel for one that comes after maxModels others.
func (b *boundedLabel) of(value string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.seen[value]; ok || value == "" {
		return known
	}
	if len(b.seen) >= maxModels || len(value) > maxModelName {
		return otherModel
	}
	if b.seen == nil {
		b.seen = map[string]string{}
	}
	own := strings.Clone(value)
	b.seen[own] = strings.ToValidUTF8(own, "\uFFFD")
	return b.seen[own]
}

// picked counts a pick, and follows its request.
func (u *upstreamMetrics) picked(k *pick) {
	if u == nil {
		return
	}
	pool, r, a, started := k.pool, k.request, &k.answer, k.started
	u.scheduling.Observe(time.Since(started).Seconds())
	target := u.models.of(cmp.Or(servedModel(&r.Facts), k.model))
	labels := []string{u.models.of(k.model), target, u.fairness.of(string(pool.fairness(r))), strconv.Itoa(int(pool.priority(r)))}
	if a.Status != 0 || k.lease == nil {
		u.attempts.WithLabelValues("failure", target, "", "", "").Inc()
		u.errors.WithLabelValues(append(labels, strconv.Itoa(a.Status))...).Inc()
		return
	}
	first := ""
	if len(a.Endpoints) > 0 {
		first = a.Endpoints[0]
	}
	name, port := pool.named(first)
	u.attempts.WithLabelValues("success", target, name, pool.ID.Namespace, port).Inc()
	u.requests.WithLabelValues(labels...).Inc()
	if of := pool.disagg(); k.staged && of != nil {
		u.stages.WithLabelValues(of.Handler, of.HandlerType, cmp.Or(target, "unknown"), k.further.decision()).Inc()
	}
	if k.tokens > 0 {
		u.input.WithLabelValues(labels...).Observe(float64(k.tokens))
	}
	u.running.WithLabelValues(labels...).Inc()
	a.Track = &upstreamRequest{Tracker: a.Track, metrics: u, labels: labels, started: started, streaming: r.Facts.Stream}
}

// named returns the name of an endpoint's pod, or its IP address, and its port.
func (pool *pool) named(text string) (name, port string) {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return "", ""
	}
	for i := range pool.snapshot.Endpoints {
		if e := &pool.snapshot.Endpoints[i]; e.Addr == addr {
			name = e.Pod
			break
		}
	}
	return cmp.Or(name, addr.Addr().String()), strconv.Itoa(int(addr.Port()))
}

// upstreamRequest measures one request.
type upstreamRequest struct {
	extproc.Tracker
	metrics   *upstreamMetrics
	labels    []string
	started   time.Time
	streaming bool
}

// Response implements extproc.Tracker.
func (u *upstreamRequest) Response(of extproc.Response) extproc.Header {
	if of.Status >= 400 {
		u.metrics.errors.WithLabelValues(append(u.labels, strconv.Itoa(of.Status))...).Inc()
	}
	return u.Tracker.Response(of)
}

// Begun implements extproc.Tracker.
func (u *upstreamRequest) Begun() {
	labels := append(u.labels, strconv.FormatBool(u.streaming))
	u.metrics.firstToken.WithLabelValues(labels...).Observe(time.Since(u.started).Seconds())
	u.Tracker.Begun()
}

// End implements extproc.Tracker.
func (u *upstreamRequest) End() {
	u.metrics.seconds.WithLabelValues(u.labels...).Observe(time.Since(u.started).Seconds())
	u.metrics.running.WithLabelValues(u.labels...).Dec()
	u.Tracker.End()
}

// upstreamPools computes the metrics of pools when the page is read.
type upstreamPools struct{ picker *Picker }

var (
	upstreamMeans = map[string][2]*prometheus.Desc{ // of what; today's name and the former one
		"kv":      upstreamDescs("average_kv_cache_utilization", "Mean use of the servers' KV caches, 0 to 1 (llm-d's name)."),
		"queue":   upstreamDescs("average_queue_size", "Mean number of requests that wait at a server (llm-d's name)."),
		"running": upstreamDescs("average_running_requests", "Mean number of requests that run at a server (llm-d's name)."),
	}
	upstreamDeviations = map[string]*prometheus.Desc{
		"kv":      upstreamDesc("llm_d_epp_std_dev_kv_cache_utilization", "Standard deviation of the use of the servers' KV caches (llm-d's name)."),
		"queue":   upstreamDesc("llm_d_epp_std_dev_queue_size", "Standard deviation of the numbers of requests that wait (llm-d's name)."),
		"running": upstreamDesc("llm_d_epp_std_dev_running_requests", "Standard deviation of the numbers of requests that run (llm-d's name)."),
	}
	upstreamReady  = [2]*prometheus.Desc{upstreamDesc("llm_d_epp_ready_endpoints", "Endpoints of the pool that take requests (llm-d's name)."), upstreamDesc("inference_pool_ready_pods", "Endpoints of the pool that take requests (the inference extension's name).")}
	upstreamQueues = [2]*prometheus.Desc{
		prometheus.NewDesc("llm_d_epp_per_endpoint_queue_size", "Requests that wait at a server (llm-d's name).", []string{"name", "model_server_endpoint"}, nil),
		prometheus.NewDesc("inference_pool_per_pod_queue_size", "Requests that wait at a server (the inference extension's name).", []string{"name", "model_server_pod"}, nil),
	}
)

func upstreamDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"name"}, nil)
}

func upstreamDescs(name, help string) [2]*prometheus.Desc {
	return [2]*prometheus.Desc{upstreamDesc("llm_d_epp_"+name, help), upstreamDesc("inference_pool_"+name, strings.Replace(help, "llm-d's", "the inference extension's", 1))}
}

// Describe implements prometheus.Collector.
func (upstreamPools) Describe(ch chan<- *prometheus.Desc) {
	for what, both := range upstreamMeans {
		ch <- both[0]
		ch <- both[1]
		ch <- upstreamDeviations[what]
	}
	for _, both := range [][2]*prometheus.Desc{upstreamReady, upstreamQueues} {
		ch <- both[0]
		ch <- both[1]
	}
}

// Collect implements prometheus.Collector. Upstream's label name has no namespace.
func (c upstreamPools) Collect(ch chan<- prometheus.Metric) {
	for _, pool := range c.picker.pools.now.Load().byName {
		if !pool.Default { // the only one that a stand-alone picker serves
			continue
		}
		name := pool.ID.Pool.Name
		both := func(descs [2]*prometheus.Desc, v float64, labels ...string) {
			for _, d := range descs {
				ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
			}
		}
		ready := 0
		shown := map[string][]float64{}
		seen := map[string]bool{}
		for i := range pool.snapshot.Endpoints {
			e := &pool.snapshot.Endpoints[i]
			if e.Draining {
				continue
			}
			ready++
			state := e.State()
			shown["kv"], shown["queue"], shown["running"] = append(shown["kv"], state.KV), append(shown["queue"], state.Queue), append(shown["running"], state.Running)
			if at := cmp.Or(e.Pod, e.Text); !seen[at] {
				seen[at] = true
				both(upstreamQueues, state.Queue, at)
			}
		}
		both(upstreamReady, float64(ready))
		for what, values := range shown {
			mean, deviation := spread(values)
			both(upstreamMeans[what], mean)
			ch <- prometheus.MustNewConstMetric(upstreamDeviations[what], prometheus.GaugeValue, deviation, name)
		}
	}
}

// spread returns the mean of some values, and their standard deviation.
func spread(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(deviation)
}
