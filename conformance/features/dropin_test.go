package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

const guideDocument = `
apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: token-producer, parameters: {estimate: {}}}
- {type: inflight-load-producer, parameters: {prefixMatchInfoProducerName: approx-prefix-cache-producer}}
- {type: approx-prefix-cache-producer, parameters: {maxPrefixTokensToMatch: 131072}}
- type: predicted-latency-producer
- {type: prefix-cache-affinity-filter, parameters: {affinityThreshold: 0.6}}
- type: latency-scorer
- type: no-hit-lru-scorer
- {type: concurrency-detector, parameters: {maxConcurrency: 64}}
- type: vllmhttp-parser
- {type: moon-phase-reporter, parameters: {moon: full}}
flowControl:
  enableEviction: true
  defaultRequestTTL: 300s
  saturationDetector: {pluginRef: concurrency-detector}
  priorityBands: [{priority: -1, defaultRequestTTL: 9000s}]
schedulingProfiles:
- name: default
  plugins: [{pluginRef: prefix-cache-affinity-filter}, {pluginRef: latency-scorer}, {pluginRef: no-hit-lru-scorer}]
`

// KServe's scheduler starts the picker with these arguments. Its template renders flags that are
// off as empty arguments.
func TestDropIn_ManifestsOfLLMDsPickerStartUnchanged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	s.closed("metrics")
	s.alone("epp", "externalpicker.yaml", with("external", "two"), "", "--pool-name", "chat",
		"--config-text", guideDocument, "--zap-encoder", "json", "", "--enable-cert-reload=true", "",
		"--ha-enable-leader-election", "--metrics-port", fmt.Sprint(s.ports["metrics"]), "")
	s.up("externalpicker.yaml", with("two", "external", "slice"))
	s.answers("/", http.StatusOK)

	words := strings.Repeat("the same words again and again ", 40)
	prompt := fmt.Sprintf(`{"model": "llama", "messages": [{"role": "user", "content": %q}]}`, words)
	first := s.answered("/", prompt).by()
	for range 8 {
		if by := s.answered("/", prompt).by(); by != first {
			t.Fatalf("the prompt went to %s, then to %s, want the same server", first, by)
		}
	}

	// llm-d's dashboards and autoscalers read these series, by their current or former names.
	page := ""
	shows := func(what string) {
		t.Helper()
		s.Eventually("the page shows "+what, func() error {
			got, err := s.get("http://" + s.address("metrics") + "/metrics")
			page = got.body
			return because(regexp.MustCompile("(?m)^"+what).MatchString(page), err, "none of", len(page), "bytes")
		})
	}
	for _, line := range []string{
		`llm_d_epp_flow_control_pool_saturation\{inference_pool="chat"\} `,
		`inference_extension_flow_control_pool_saturation\{inference_pool="chat"\} `,
		`llm_d_epp_flow_control_queue_size\{fairness_id="",inference_pool="chat",model_name="",priority="0",.*\} 0`,
		`inference_extension_flow_control_queue_size\{.*inference_pool="chat".*\} 0`,
		`llm_d_epp_flow_control_requests_total\{inference_pool="chat",outcome="Dispatched",priority="0"\} [1-9]`,
		`inference_extension_flow_control_request_queue_duration_seconds_count\{.*outcome="Dispatched".*\} [1-9]`,
		`inference_objective_request_total\{model_name="llama",priority="0",target_model_name="llama"\} [1-9]`,
		`inference_objective_input_tokens_count\{model_name="llama",target_model_name="llama"\} [1-9]`,
		`inference_objective_running_requests\{model_name="llama"\} `,
		`inference_extension_scheduler_attempts_total\{.*pod_name=.*status="success".*\} [1-9]`,
		`inference_pool_average_kv_cache_utilization\{name="chat"\} `,
		`llm_d_epp_inflight_requests\{endpoint_name=".*",fairness_id="",namespace="default".*,producer_name="inflight-load-producer"\} `,
		`llm_d_epp_prefix_indexer_hit_ratio_sum\{.*\} [1-9.]`,
		`llm_d_epp_request_predicted_ttft_seconds_count\{.*\} [1-9]`,
		`llm_d_epp_request_size_bytes_count\{.*\} [1-9]`,
		`llm_d_epp_request_processing_duration_seconds_count [1-9]`,
		`llm_d_inference_scheduler_datalayer_poll_errors_total\{source_type="metrics-data-source"\} `,
		`llm_d_epp_info\{.*\} 1`,
	} {
		shows(line)
	}
}
