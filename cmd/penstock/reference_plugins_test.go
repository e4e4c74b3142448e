package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker"
)

func pluginsSection() string {
	rows := ""
	for _, p := range endpointpicker.Catalog() {
		note := cmp.Or(p.Note, pluginNotes[p.Type])
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", p.Type, p.Role, p.Treatment, oneLine(note))
	}
	return table("Type | Role | In Penstock | Note", rows)
}

// documented are the metrics in the documentation of llm-d's EPP 0.10, without the prefix
// llm_d_epp_.
const documented = `
request_total request_error_total request_duration_seconds request_size_bytes response_size_bytes
request_input_tokens request_output_tokens request_cached_tokens request_running request_ntpot_seconds
request_ttft_seconds request_streaming_tpot_seconds request_streaming_itl_seconds average_kv_cache_utilization
average_queue_size average_running_requests std_dev_kv_cache_utilization std_dev_queue_size
std_dev_running_requests ready_endpoints per_endpoint_queue_size scheduler_e2e_duration_seconds
scheduler_attempts_total request_processing_duration_seconds response_processing_duration_seconds
plugin_duration_seconds info model_rewrite_decisions_total datalayer_poll_errors_total
datalayer_extract_errors_total prefix_indexer_size prefix_indexer_hit_ratio prefix_indexer_hit_bytes
encoder_cache_queries_total encoder_cache_hits_total encoder_cache_hit_ratio
program_aware_jains_fairness_index program_aware_avg_wait_time_milliseconds
program_aware_attained_service_tokens inference_request_metric request_predicted_ttft_seconds
request_ttft_prediction_duration_seconds request_predicted_tpot_seconds
request_tpot_prediction_duration_seconds request_slo_violation_total disagg_decision_total pd_decision_total
disaggregatedset_strict_header_no_match_total disaggregatedset_revision_gating_share
flow_control_request_queue_duration_seconds flow_control_dispatch_cycle_duration_seconds
flow_control_request_enqueue_duration_seconds flow_control_queue_size flow_control_queue_bytes
flow_control_pool_saturation flow_control_stale_endpoints flow_control_requests_total extproc_streams_inflight
extproc_stream_duration_seconds extproc_streams_total inflight_requests inflight_tokens
kv_cache_index_admissions_total kv_cache_index_evictions_total kv_cache_index_lookup_requests_total
kv_cache_index_lookup_hits_total kv_cache_index_max_pod_hit_count_total kv_cache_index_lookup_latency_seconds
kv_cache_events_dedup_removed_hashes_suppressed_total kv_cache_events_dedup_removed_hashes_forwarded_total`

// absentSeries are documented metrics of llm-d that penstock picker lacks, with the reason.
var absentSeries = map[string]string{
	"plugin_duration_seconds": "plugins of a pick take about a microsecond each, and " +
		"are not timed",
	"request_ttft_prediction_duration_seconds":      "predictions take no call",
	"request_tpot_prediction_duration_seconds":      "predictions take no call",
	"inference_request_metric":                      "request_ttft_seconds has the observed values",
	"encoder_cache_queries_total":                   "the kinds of media are not distinguished",
	"encoder_cache_hits_total":                      "the kinds of media are not distinguished",
	"encoder_cache_hit_ratio":                       "the kinds of media are not distinguished",
	"program_aware_jains_fairness_index":            "fairness IDs take turns",
	"program_aware_avg_wait_time_milliseconds":      "flow_control_request_queue_duration_seconds has the waits",
	"program_aware_attained_service_tokens":         "fairness IDs take turns",
	"disaggregatedset_strict_header_no_match_total": "disaggregatedset-rollout-screener is not supported",
	"disaggregatedset_revision_gating_share":        "disaggregatedset-rollout-screener is not supported",
	"extproc_streams_inflight":                      "penstock_picker_open_leases has the requests in flight",
	"extproc_stream_duration_seconds":               "request_duration_seconds has the time of requests",
	"extproc_streams_total":                         "penstock_picker_picks_total has the results of calls",

	// These belong to llm-d's KV block index, which publishes them on request.
	"kv_cache_index_admissions_total":      "prefix_indexer_size has the blocks",
	"kv_cache_index_evictions_total":       "prefix_indexer_size has the blocks",
	"kv_cache_index_lookup_requests_total": "prefix_indexer_hit_ratio counts the prompts",
	"kv_cache_index_lookup_hits_total":     "prefix_indexer_hit_ratio has the hits",
	"kv_cache_index_max_pod_hit_count_total": "prefix_indexer_hit_bytes has the hits of the " +
		"picked server",
	"kv_cache_index_lookup_latency_seconds": "a look-up takes about a microsecond, and " +
		"is not timed",
	"kv_cache_events_dedup_removed_hashes_suppressed_total": "events are not filtered",
	"kv_cache_events_dedup_removed_hashes_forwarded_total":  "events are not filtered",
}

func TestUpstreamMetrics_EachDocumentedSeriesIsAccountedFor(t *testing.T) {
	known := map[string]bool{}
	for _, s := range picker.UpstreamSeries() {
		known[strings.TrimPrefix(s.Name, "llm_d_epp_")] = true
	}
	absent := maps.Clone(absentSeries)
	for _, name := range strings.Fields(documented) {
		if known[name] == (absent[name] != "") {
			t.Errorf("%s exists %v; absent because %q", name, known[name], absent[name])
		}
		delete(known, name)
		delete(absent, name)
	}
	for name := range known {
		t.Errorf("llm-d does not document %s", name)
	}
	for name := range absent {
		t.Errorf("llm-d does not document %s", name)
	}
}

func seriesSection() string {
	rows := ""
	for _, s := range picker.UpstreamSeries() {
		typ, former := s.Type, ""
		if len(s.Labels) > 0 {
			typ += ": " + inCode(s.Labels)
		}
		if s.Former != "" {
			former = "`" + s.Former + "`"
		}
		rows += fmt.Sprintf("| `%s` | %s | %s | %s |\n", s.Name, former, typ, oneLine(s.Help))
	}
	return table("Series | Former name | Type: labels | Help", rows)
}

func absentSection() string {
	rows := ""
	for _, name := range slices.Sorted(maps.Keys(absentSeries)) {
		rows += fmt.Sprintf("| `llm_d_epp_%s` | %s |\n", name, absentSeries[name])
	}
	return table("Series | Reason", rows)
}
