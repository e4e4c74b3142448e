package picker

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/flow"
)

// upstreamMetrics are the series of llm-d's EPP (v0.10) that Penstock can provide. They keep their
// former names too, for existing dashboards and autoscalers.
type upstreamMetrics struct {
	upstreamSeries
	picker                                 *Picker
	requests, errors, attempts, rewrites   counters
	stages, pairs, outcomes, late          counters
	running                                gauges
	seconds, firstToken, perOutput         histograms
	perToken, between                      histograms
	input, output, cached, sizes, answered histograms
	scheduling, processing, responding     histograms
	queued, entered, cycle                 histograms
	predictedFirst, predictedNext          histograms
	hitRatio, hitBytes                     histograms
	models, fairness                       boundedLabel
}

var (
	requestLabels = []string{"model_name", "target_model_name", "fairness_id", "priority"}
	pluginLabels  = []string{"plugin_name", "plugin_type"}
)

func with(labels []string, more ...string) []string {
	return append(labels[:len(labels):len(labels)], more...)
}

func newUpstreamMetrics(r prometheus.Registerer, p *Picker) (*upstreamMetrics, error) {
	u := &upstreamMetrics{picker: p}
	u.addRequests()
	u.addPicks()
	u.addFlow()
	if r == nil {
		return u, nil
	}
	for _, c := range append(u.all, upstreamPools{p, &u.models, &u.fairness}) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return u, nil
}

const (
	objective = "inference_objective_"
	extension = "inference_extension_"
	scheduler = "llm_d_inference_scheduler_"
)

func (u *upstreamMetrics) addRequests() {
	u.requests = u.counter("request_total", "Requests that a model server was picked for",
		requestLabels, objective+"request_total", 0, 1, 3)
	u.errors = u.counter("request_error_total", "Requests that ended with an error, by its status",
		with(requestLabels, "error_code"), objective+"request_error_total", 0, 1, 4)
	u.running = u.gauge("request_running", "Requests in flight",
		requestLabels, objective+"running_requests", 0)
	u.seconds = u.histogram("request_duration_seconds", "Time from a request's pick to the end of its response",
		upstreamSeconds, requestLabels, objective+"request_duration_seconds", 0, 1)
	u.sizes = u.histogram("request_size_bytes", "Size of requests' bodies",
		upstreamSizes, requestLabels, objective+"request_sizes", 0, 1)
	u.answered = u.histogram("response_size_bytes", "Size of responses' bodies, from gateways that send them",
		upstreamTokens[:15], requestLabels, objective+"response_sizes", 0, 1)
	u.input = u.histogram("request_input_tokens",
		"Tokens of prompts, a quarter of their bytes unless token IDs are given",
		upstreamTokens, requestLabels, objective+"input_tokens", 0, 1)
	u.output = u.histogram("request_output_tokens",
		"Tokens of responses by their own account, from gateways that send bodies",
		upstreamTokens[:12], requestLabels, objective+"output_tokens", 0, 1)
	u.cached = u.histogram("request_cached_tokens",
		"Cached tokens of prompts by the response's own account, from gateways that send bodies",
		upstreamTokens, requestLabels, objective+"prompt_cached_tokens", 0, 1)
	u.perOutput = u.histogram("request_ntpot_seconds", "Time of a request by the tokens of its response",
		upstreamPerToken, requestLabels, objective+"normalized_time_per_output_token_seconds", 0, 1)
	u.firstToken = u.histogram("request_ttft_seconds",
		"Time from a request's pick to the first byte of its response's body, from gateways that send bodies as "+
			"they arrive",
		upstreamSeconds[:24], with(requestLabels, "streaming"), objective+"request_ttft_seconds", 0, 1)
	u.perToken = u.histogram("request_streaming_tpot_seconds", "Time between two tokens of a streamed response",
		upstreamTPOT, requestLabels, objective+"request_tpot_seconds", 0, 1)
	u.between = u.histogram("request_streaming_itl_seconds", "Time between two messages of a streamed response's body",
		upstreamITL, requestLabels, "")
}

func (u *upstreamMetrics) addPicks() {
	latencyLabels := with(pluginLabels, "model_name", "target_model_name")
	u.attempts = u.counter("scheduler_attempts_total", "Picks, by status and endpoint",
		[]string{"status", "target_model_name", "endpoint_name", "namespace", "port"},
		extension+"scheduler_attempts_total", 0, 1, 2, 3, 4)
	u.scheduling = u.histogram("scheduler_e2e_duration_seconds", "Time that picks take",
		upstreamPicks, nil, extension+"scheduler_e2e_duration_seconds")
	u.processing = u.histogram("request_processing_duration_seconds",
		"Time from a request's headers to its pick, waits for flow control included",
		upstreamPicks, nil, "")
	u.responding = u.histogram("response_processing_duration_seconds", "Time that the messages of a response take here",
		upstreamPicks, nil, "")
	u.rewrites = u.counter("model_rewrite_decisions_total", "Requests whose model is replaced",
		[]string{"model_rewrite_name", "model_name", "target_model"}, extension+"model_rewrite_decisions_total", 0, 1,
		2)

	u.stages = u.counter("disagg_decision_total", "Picks by the stages of the request",
		with(pluginLabels, "model_name", "decision_type"), scheduler+"disagg_decision_total", 2, 3)
	u.pairs = u.counter("pd_decision_total", "Picks of pd-profile-handler by the stages of the request",
		with(pluginLabels, "model_name", "decision_type"), scheduler+"pd_decision_total", 2, 3)
	u.predictedFirst = u.histogram("request_predicted_ttft_seconds", "Predicted time to the first token",
		upstreamSeconds[:24], latencyLabels, objective+"request_predicted_ttft_seconds", 2, 3)
	u.predictedNext = u.histogram("request_predicted_tpot_seconds", "Predicted time between two tokens",
		upstreamTPOT, latencyLabels, objective+"request_predicted_tpot_seconds", 2, 3)
	u.late = u.counter("request_slo_violation_total", "Requests that missed their objective, by type ttft or tpot",
		with(latencyLabels, "type"), objective+"request_slo_violation_total", 2, 3, 4)
	u.hitRatio = u.histogram("prefix_indexer_hit_ratio", "Part of prompts that the picked server has cached",
		[]float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}, pluginLabels,
		extension+"prefix_indexer_hit_ratio")
	u.hitBytes = u.histogram("prefix_indexer_hit_bytes", "Bytes of prompts that the picked server has cached",
		upstreamTokens[:15], pluginLabels, extension+"prefix_indexer_hit_bytes")
}

func (u *upstreamMetrics) addFlow() {
	flowLabels := []string{"fairness_id", "priority", "outcome", "inference_pool", "model_name", "target_model_name"}
	u.outcomes = u.counter("flow_control_requests_total", "Requests by what flow control made of them",
		[]string{"outcome", "priority", "inference_pool"}, "")
	u.queued = u.histogram("flow_control_request_queue_duration_seconds", "Time that requests wait for flow control",
		upstreamWaits, flowLabels, extension+"flow_control_request_queue_duration_seconds", 0, 1, 2, 3, 4, 5)
	u.entered = u.histogram("flow_control_request_enqueue_duration_seconds",
		"Time until a request is queued, admitted or rejected",
		upstreamPicks, []string{"fairness_id", "priority", "outcome"},
		extension+"flow_control_request_enqueue_duration_seconds", 0, 1, 2)
	u.cycle = u.histogram("flow_control_dispatch_cycle_duration_seconds",
		"Time of one measurement of a pool's saturation",
		upstreamPicks, nil, extension+"flow_control_dispatch_cycle_duration_seconds")
}

type boundedLabel struct {
	mu   sync.Mutex
	seen map[string]string
}

func (b *boundedLabel) bounded(value string) string {
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

func (u *upstreamMetrics) measured(took time.Duration) {
	if u != nil {
		u.cycle.observe(took.Seconds())
	}
}

var outcomeNames = map[flow.Outcome]string{
	flow.Admitted: "Dispatched", flow.Rejected: "RejectedCapacity", flow.Expired: "EvictedTTL",
	flow.NoEndpoints: "RejectedNoEndpoints", flow.Canceled: "EvictedContextCancelled",
}

func (u *upstreamMetrics) picked(k *pick) {
	if u == nil {
		return
	}
	pool, r, a, started := k.pool, k.request, &k.answer, k.started
	took := time.Since(started)
	u.scheduling.observe(took.Seconds())
	u.processing.observe((took + k.waited).Seconds())
	model, target := u.models.bounded(k.model), u.models.bounded(cmp.Or(servedModel(&r.Facts), k.model))
	labels := []string{model, target, u.fairness.bounded(string(pool.fairness(r))), strconv.Itoa(int(pool.priority(r)))}
	if outcome := outcomeNames[k.held]; outcome != "" {
		u.outcomes.inc(outcome, labels[3], pool.ID.Pool.Name)
		u.queued.observe(k.waited.Seconds(), labels[2], labels[3], outcome, pool.ID.Pool.Name, model, target)
		u.entered.observe(k.entered.Seconds(), labels[2], labels[3], outcome)
	}
	if size := max(r.Facts.Size, contentLength(r)); size > 0 {
		u.sizes.observe(float64(size), labels...)
	}
	if r.Facts.Target != nil {
		u.rewrites.inc(pool.ID.Pool.Name, u.models.bounded(r.Facts.Model), target)
	}
	if a.Status != 0 || k.lease == nil {
		u.attempts.inc("failure", target, "", "", "")
		u.errors.inc(append(labels, strconv.Itoa(a.Status))...)
		return
	}
	first := ""
	if len(a.Endpoints) > 0 {
		first = a.Endpoints[0]
	}
	name, port := pool.named(first)
	u.attempts.inc("success", target, name, pool.ID.Namespace, port)
	u.requests.inc(labels...)
	if d := pool.disagg(); k.staged && d != nil {
		for _, c := range []struct {
			counters
			on bool
		}{{u.stages, true}, {u.pairs, d.HandlerType == "pd-profile-handler"}} {
			if c.on {
				c.inc(d.Handler, d.HandlerType, cmp.Or(target, "unknown"), k.further.decision())
			}
		}
	}
	if k.tokens > 0 {
		u.input.observe(float64(k.tokens), labels...)
	}
	t := &upstreamRequest{Tracker: a.Track, metrics: u, labels: labels, started: started, streaming: r.Facts.Stream}
	t.objective = pool.objective(r.Headers.Header)
	if len(k.ranked) > 0 {
		u.ranked(k, t)
	}
	u.running.add(1, labels...)
	a.Track = t
}

func (u *upstreamMetrics) ranked(k *pick, t *upstreamRequest) {
	c := &k.ranked[0]
	if c.TTFT > 0 {
		t.predictor = []string{"latency-scorer", "latency-scorer", t.labels[0], t.labels[1]}
		u.predictedFirst.observe(c.TTFT, t.predictor...)
		u.predictedNext.observe(c.TPOT, t.predictor...)
	}
	if k.tokens > 0 && len(k.query.Chain) > 0 {
		u.hitRatio.observe(min(float64(c.Cached)/float64(k.tokens), 1), prefixPlugin...)
		u.hitBytes.observe(float64(4*c.Cached), prefixPlugin...)
	}
}

var prefixPlugin = []string{"approx-prefix-cache-producer", "approx-prefix-cache-producer"}

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
