package endpoint

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// Engine is a model server's program. It determines the names of the metrics.
type Engine string

// Any other Engine counts as VLLM.
const (
	VLLM        Engine = "vllm"
	SGLang      Engine = "sglang"
	TRTLLMServe Engine = "trtllm-serve"
	Triton      Engine = "triton-tensorrt-llm"
	LlamaCPP    Engine = "llamacpp"
)

type dialect struct {
	path                   string
	port                   uint16 // of the metrics page; 0 means the endpoint's port
	queue, running         series
	kv, kvOld              series
	lora                   series // the labels of each line list a set of LoRA adapters
	shape                  series // the labels contain the KV cache's shape
	sizeLabel, blocksLabel string
	size, blocks           series
	tokens                 series // the KV cache's size in tokens
	computed, seconds      series // counters: uncached prompt tokens, and the time in which they were read
	prefills               series // counter: number of prompts whose time is in seconds
	read, written          series // counters: tokens of prompts and of responses
}

var dialects = map[Engine]*dialect{
	VLLM: {
		path: "/metrics", queue: parseSeries("vllm:num_requests_waiting"),
		running: parseSeries("vllm:num_requests_running"),
		// vLLM 0.10 renamed the KV cache usage.
		kv: parseSeries("vllm:kv_cache_usage_perc"), kvOld: parseSeries("vllm:gpu_cache_usage_perc"),
		lora: parseSeries("vllm:lora_requests_info"), shape: parseSeries("vllm:cache_config_info"),
		sizeLabel: "block_size", blocksLabel: "num_gpu_blocks",
		computed: parseSeries("vllm:request_prefill_kv_computed_tokens_sum"),
		seconds:  parseSeries("vllm:request_prefill_time_seconds_sum"),
		prefills: parseSeries("vllm:request_prefill_time_seconds_count"),
		read:     parseSeries("vllm:prompt_tokens_total"), written: parseSeries("vllm:generation_tokens_total"),
	},
	// SGLang before 0.5.11 has the KV cache's shape in labels, later versions in values.
	SGLang: {
		path: "/metrics", queue: parseSeries("sglang:num_queue_reqs"), running: parseSeries("sglang:num_running_reqs"),
		kv:    parseSeries("sglang:token_usage"),
		shape: parseSeries("sglang:cache_config_info"), sizeLabel: "page_size", blocksLabel: "num_pages",
		size: parseSeries("sglang:page_size"), blocks: parseSeries("sglang:num_pages"),
		tokens: parseSeries("sglang:max_total_num_tokens"),
		read:   parseSeries("sglang:prompt_tokens_total"), written: parseSeries("sglang:generation_tokens_total"),
	},
	TRTLLMServe: {
		path: "/prometheus/metrics", queue: parseSeries("trtllm_num_requests_waiting"),
		running: parseSeries("trtllm_num_requests_running"),
		kv:      parseSeries("trtllm_kv_cache_utilization"), size: parseSeries("trtllm_kv_cache_tokens_per_block"),
		blocks: parseSeries("trtllm_kv_cache_max_blocks"),
	},
	Triton: {
		path: "/metrics", port: 8002, queue: parseSeries("nv_trt_llm_request_metrics{request_type=waiting}"),
		running: parseSeries("nv_trt_llm_request_metrics{request_type=scheduled}"),
		kv:      parseSeries("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
		size:    parseSeries("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}"),
		blocks:  parseSeries("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}"),
	},
	// llama.cpp serves metrics only with --metrics.
	LlamaCPP: {
		path: "/metrics", queue: parseSeries("llamacpp:requests_deferred"),
		running:  parseSeries("llamacpp:requests_processing"),
		computed: parseSeries("llamacpp:prompt_tokens_total"), seconds: parseSeries("llamacpp:prompt_seconds_total"),
		read: parseSeries("llamacpp:prompt_tokens_total"), written: parseSeries("llamacpp:tokens_predicted_total"),
	},
}

// forServer returns m with the engine that a server's labels name, if it is known. The translator
// reports unknown engines.
func (m Metrics) forServer(labels map[string]string) Metrics {
	_, name := endpointpicker.EngineOf(labels)
	e := Engine(name)
	if e == "triton" {
		e = Triton
	}
	if _, known := dialects[e]; known {
		m.Engine = e
	}
	return m
}

func (m *Metrics) dialect() *dialect {
	engine, known := dialects[m.Engine]
	if !known {
		engine = dialects[VLLM]
	}
	if m.Path == "" && m.Port == 0 && m.Queue == "" && m.Running == "" && m.KVCache == "" {
		return engine
	}
	own := *engine
	d := &own
	d.path, d.port = cmp.Or(m.Path, d.path), cmp.Or(m.Port, d.port)
	if m.Queue != "" {
		d.queue = parseSeries(m.Queue)
	}
	if m.Running != "" {
		d.running = parseSeries(m.Running)
	}
	if m.KVCache != "" {
		d.kv, d.kvOld = parseSeries(m.KVCache), series{}
	}
	return d
}

type series struct {
	name   string
	labels []selector
}

type selector struct{ name, value string }

func parseSeries(text string) series {
	name, rest, ok := strings.Cut(text, "{")
	s := series{name: strings.TrimSpace(name)}
	if !ok {
		return s
	}
	for pair := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(rest), "}"), ",") {
		if label, value, ok := strings.Cut(pair, "="); ok {
			s.labels = append(s.labels, selector{strings.TrimSpace(label), strings.Trim(strings.TrimSpace(value), `"`)})
		}
	}
	return s
}

func (s *series) matches(line []byte) bool {
	if s.name == "" || len(line) <= len(s.name) || string(line[:len(s.name)]) != s.name {
		return false
	}
	switch line[len(s.name)] {
	case ' ', '\t':
		return len(s.labels) == 0
	case '{':
		return len(s.labels) == 0 || s.selects(line[len(s.name)+1:])
	}
	return false
}

func (s *series) selects(labels []byte) bool {
	end := endOfLabels(labels)
	if end < 0 {
		return false
	}
	found := 0
	eachLabel(labels[:end], func(name, value string) {
		for _, want := range s.labels {
			if want == (selector{name, value}) {
				found++
			}
		}
	})
	return found == len(s.labels)
}

func (d *dialect) shapeTokens(line []byte) int {
	open := bytes.IndexByte(line, '{')
	if open < 0 {
		return 0
	}
	size, blocks := 0, 0
	eachLabel(line[open+1:], func(name, text string) {
		switch name {
		case d.sizeLabel:
			size = atoi(text)
		case d.blocksLabel:
			blocks = atoi(text)
		}
	})
	return shape(size, blocks)
}
