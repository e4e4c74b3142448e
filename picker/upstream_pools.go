package picker

import (
	"cmp"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/manifests/release"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/flow"
)

type upstreamPools struct {
	picker           *Picker
	models, fairness *boundedLabel
}

var (
	flowQueueLabels = []string{"fairness_id", "priority", "inference_pool", "model_name", "target_model_name"}
	inFlightLabels  = []string{"endpoint_name", "namespace", "producer_name", "fairness_id", "priority"}

	gaugeSeries = []Series{
		{"llm_d_epp_average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization", "gauge",
			[]string{"name"},
			"Mean use of the servers' KV caches, 0 to 1"},
		{"llm_d_epp_average_queue_size", "inference_pool_average_queue_size", "gauge", []string{"name"},
			"Mean number of requests that wait at a server"},
		{"llm_d_epp_average_running_requests", "inference_pool_average_running_requests", "gauge", []string{"name"},
			"Mean number of requests that run at a server"},
		{"llm_d_epp_std_dev_kv_cache_utilization", "", "gauge", []string{"name"},
			"Standard deviation of the use of the servers' KV caches"},
		{"llm_d_epp_std_dev_queue_size", "", "gauge", []string{"name"},
			"Standard deviation of the numbers of requests that wait"},
		{"llm_d_epp_std_dev_running_requests", "", "gauge", []string{"name"},
			"Standard deviation of the numbers of requests that run"},
		{"llm_d_epp_ready_endpoints", "inference_pool_ready_pods", "gauge", []string{"name"},
			"Endpoints of the pool that take requests"},
		{"llm_d_epp_per_endpoint_queue_size", "inference_pool_per_pod_queue_size", "gauge",
			[]string{"name", "model_server_endpoint"},
			"Requests that wait at a server"},
		{"llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size", "gauge", flowQueueLabels,
			"Requests that flow control holds"},
		{"llm_d_epp_flow_control_queue_bytes", "inference_extension_flow_control_queue_bytes", "gauge", flowQueueLabels,
			"Bytes of their bodies"},
		{"llm_d_epp_flow_control_pool_saturation", "inference_extension_flow_control_pool_saturation", "gauge",
			[]string{"inference_pool"},
			"Saturation of the pool: with flow control, requests wait at 1 and more; 1 without an endpoint"},
		{"llm_d_epp_flow_control_stale_endpoints", "", "gauge", []string{"detector"},
			"Endpoints without a recent metrics page"},
		{"llm_d_epp_inflight_requests", "", "gauge", inFlightLabels,
			"Requests in flight at a server"},
		{"llm_d_epp_inflight_tokens", "", "gauge", inFlightLabels,
			"Tokens of prompts in flight without a first token"},
		{"llm_d_epp_prefix_indexer_size", "inference_extension_prefix_indexer_size", "gauge", pluginLabels,
			"Blocks of prompts that servers are known to have cached"},
		{"llm_d_epp_datalayer_poll_errors_total", "llm_d_inference_scheduler_datalayer_poll_errors_total", "counter",
			[]string{"source_type"},
			"Metrics pages that could not be read"},
		{"llm_d_epp_datalayer_extract_errors_total", "llm_d_inference_scheduler_datalayer_extract_errors_total",
			"counter",
			[]string{"source_type", "extractor_type"},
			"Always 0: a page that lacks a needed series counts as not read"},
		{"llm_d_epp_info", "inference_extension_info", "gauge", []string{"commit", "build_ref"},
			"The build of penstock"},
	}
	poolMeans                       = [...][]*prometheus.Desc{gaugeDescs(0), gaugeDescs(1), gaugeDescs(2)}
	poolDeviations                  = [...][]*prometheus.Desc{gaugeDescs(3), gaugeDescs(4), gaugeDescs(5)}
	poolReady, poolQueues           = gaugeDescs(6), gaugeDescs(7)
	flowQueueSize, flowQueueBytes   = gaugeDescs(8), gaugeDescs(9)
	flowSaturation, flowStale       = gaugeDescs(10), gaugeDescs(11)
	inFlightRequests                = gaugeDescs(12)
	inFlightTokens, prefixSize      = gaugeDescs(13), gaugeDescs(14)
	pollErrors, extractErrors, info = gaugeDescs(15), gaugeDescs(16), gaugeDescs(17)
)

func gaugeDescs(i int) (out []*prometheus.Desc) {
	s := &gaugeSeries[i]
	out = append(out, prometheus.NewDesc(s.Name, s.Help+" (llm-d's name).", s.Labels, nil))
	if s.Former != "" {
		labels := slices.Clone(s.Labels)
		for k := range labels {
			labels[k] = strings.Replace(labels[k], "model_server_endpoint", "model_server_pod", 1)
		}
		out = append(out, prometheus.NewDesc(s.Former, s.Help+" (the former name of "+s.Name+").", labels, nil))
	}
	return out
}

func (upstreamPools) Describe(ch chan<- *prometheus.Desc) {
	for i := range gaugeSeries {
		for _, d := range gaugeDescs(i) {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector. As in llm-d, the label with the pool's name lacks the
// namespace.
func (c upstreamPools) Collect(ch chan<- prometheus.Metric) {
	c.process(ch)
	for _, pool := range c.picker.pools.now.Load().byName {
		if !pool.Default { // a stand-alone picker serves only the default pool
			continue
		}
		c.flow(ch, pool)
		c.inFlight(ch, pool)
		name, ready := pool.ID.Pool.Name, 0
		var shown [len(poolMeans)][]float64 // KV cache usage, waiting and running requests
		seen := map[string]bool{}
		for i := range pool.snapshot.Endpoints {
			e := &pool.snapshot.Endpoints[i]
			if e.Draining {
				continue
			}
			ready++
			state := e.State()
			for k, v := range [...]float64{state.KV, state.Queue, state.Running} {
				shown[k] = append(shown[k], v)
			}
			if at := cmp.Or(e.Pod, e.Text); !seen[at] {
				seen[at] = true
				emit(ch, poolQueues, prometheus.GaugeValue, state.Queue, name, at)
			}
		}
		emit(ch, poolReady, prometheus.GaugeValue, float64(ready), name)
		for k, values := range shown {
			if len(values) == 0 {
				continue
			}
			mean, deviation := spread(values)
			emit(ch, poolMeans[k], prometheus.GaugeValue, mean, name)
			emit(ch, poolDeviations[k], prometheus.GaugeValue, deviation, name)
		}
	}
}

func spread(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(deviation)
}

func emit(
	ch chan<- prometheus.Metric, descs []*prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string,
) {
	for _, d := range descs {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
}

func (c upstreamPools) process(ch chan<- prometheus.Metric) {
	const source, extractor = "metrics-data-source", "core-metrics-extractor"
	emit(ch, pollErrors, prometheus.CounterValue, float64(c.picker.registry.ScrapeFailures()), source)
	emit(ch, extractErrors, prometheus.CounterValue, 0, source, extractor)
	commit := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	emit(ch, info, prometheus.GaugeValue, 1, commit, release.Version())
}

// flow sends the series of a pool's flow control. Without flow control, it sends a saturation and
// an empty queue, because autoscalers read these series.
func (c upstreamPools) flow(ch chan<- prometheus.Metric, pool *pool) {
	name, by := pool.ID.Pool.Name, flow.Saturation{}
	if pool.FlowControl != nil {
		by = pool.FlowControl.Saturation
	}
	room := by.Measure(pool.snapshot.Endpoints, time.Now())
	if room.Endpoints == 0 {
		room.Saturation = 1
	}
	emit(ch, flowSaturation, prometheus.GaugeValue, room.Saturation, name)
	if !pool.queue.On() {
		return
	}
	type key struct {
		fairness, model string
		priority        int
	}
	type waiting struct{ requests, bytes int64 }
	all := map[key]waiting{{}: {}}
	pool.queue.Each(func(r *flow.Request) {
		k := key{c.fairness.bounded(r.Fairness), c.models.bounded(r.Model), r.Priority}
		w := all[k]
		all[k] = waiting{w.requests + 1, w.bytes + r.Bytes}
	})
	for k, w := range all {
		labels := []string{k.fairness, strconv.Itoa(k.priority), name, k.model, k.model}
		emit(ch, flowQueueSize, prometheus.GaugeValue, float64(w.requests), labels...)
		emit(ch, flowQueueBytes, prometheus.GaugeValue, float64(w.bytes), labels...)
	}
}

func (c upstreamPools) inFlight(ch chan<- prometheus.Metric, pool *pool) {
	const producer = "inflight-load-producer"
	stale, blocks := 0, 0
	requests, tokens := map[string]int64{}, map[string]int64{}
	for i := range pool.snapshot.Endpoints {
		e := &pool.snapshot.Endpoints[i]
		state := e.State()
		if !e.Draining && e.HasPage() && !state.Fresh {
			stale++
		}
		blocks += cachedBlocks(e)
		at := cmp.Or(e.Pod, e.Text)
		requests[at] += state.InFlight
		tokens[at] += state.Unread
	}
	for at := range requests {
		labels := []string{at, pool.ID.Namespace, producer, "", ""}
		emit(ch, inFlightRequests, prometheus.GaugeValue, float64(requests[at]), labels...)
		emit(ch, inFlightTokens, prometheus.GaugeValue, float64(tokens[at]), labels...)
	}
	detector := "utilization-detector"
	if pool.FlowControl != nil && pool.FlowControl.InFlight > 0 {
		detector = "concurrency-detector"
	}
	emit(ch, flowStale, prometheus.GaugeValue, float64(stale), detector)
	emit(ch, prefixSize, prometheus.GaugeValue, float64(blocks), prefixPlugin...)
}

func cachedBlocks(e *endpoint.Endpoint) int {
	if s := e.Load().Prefixes(); s != nil {
		return s.Blocks()
	}
	return 0
}
