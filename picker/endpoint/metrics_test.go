package endpoint

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

func pageOf(text string) *bufio.Reader {
	return bufio.NewReaderSize(strings.NewReader(text), pageBuffer)
}

func parse(page string, m Metrics) (Reading, error) {
	return parsePage(pageOf(page), m.dialect())
}

const vllmPage = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a}b\"{"} 3.0
vllm:num_requests_running{engine="1",model_name="x"} 2 1700000000000
vllm:num_requests_waiting{engine="0"} 7
vllm:num_requests_waiting_by_reason{reason="capacity"} 1000
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:e2e_request_latency_seconds_bucket{le="+Inf"} 12
`

func TestScrape_ReadsVLLMMetrics(t *testing.T) {
	for _, tt := range []struct {
		name, page string
		metrics    Metrics
		want       Reading
		fails      bool
	}{
		{"several engines", vllmPage, Metrics{}, Reading{Queue: 7, Running: 5, KV: 0.5}, false},
		{"lines ended by CR LF", strings.ReplaceAll(vllmPage, "\n", "\r\n"), Metrics{},
			Reading{Queue: 7, Running: 5, KV: 0.5}, false},
		{"the KV cache's older name", "vllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 0.75", Metrics{},
			Reading{KV: 0.75}, false},
		{"a full KV cache", "vllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 1.0", Metrics{}, Reading{KV: 1},
			false},
		{"one that is a little more than full", "vllm:num_requests_waiting 0\nvllm:gpu_cache_usage_perc 1.004",
			Metrics{}, Reading{KV: 1}, false},
		{"names of another server", "q 4\nr{} 2\nk 1e-1\n" + vllmPage, Metrics{Queue: "q", Running: "r", KVCache: "k"},
			Reading{Queue: 4, Running: 2, KV: 0.1}, false},
		{"a page of another program is an error", "go_goroutines 7\n", Metrics{}, Reading{}, true},
		{"not a number", "vllm:num_requests_waiting NaN\nvllm:num_requests_running -1\nvllm:kv_cache_usage_perc{ 3\n",
			Metrics{}, Reading{}, true},
		{
			"the shape of the KV cache",
			"vllm:num_requests_waiting " +
				"1\nvllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"1000\"} " +
				"1.0\nvllm:cache_config_info{num_gpu_blocks=\"500\", " +
				"block_size=\"16\"} 1.0\n", Metrics{}, Reading{Queue: 1, CacheTokens: 24000}, false,
		},
		{
			"a shape that none has",
			"vllm:num_requests_waiting 1\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"99999999999\"} " +
				"1\nvllm:cache_config_info{block_size=\"None\",num_gpu_blocks=\"1\"} " +
				"1\nvllm:cache_config_info 1\n", Metrics{}, Reading{Queue: 1}, false,
		},
		{"empty", "", Metrics{}, Reading{}, true},
		{"a line longer than the buffer is skipped",
			"info{x=\"" + strings.Repeat("vllm:num_requests_waiting 9", pageBuffer) + "\"} 1\n" + vllmPage, Metrics{},
			Reading{Queue: 7, Running: 5, KV: 0.5}, false},
		{"the last line may be longer", vllmPage + strings.Repeat("x", 2*pageBuffer), Metrics{},
			Reading{Queue: 7, Running: 5, KV: 0.5}, false},
	} {
		got, err := parse(tt.page, tt.metrics)
		got.Problem = ""
		if (err != nil) != tt.fails || !tt.fails && got != tt.want {
			t.Errorf("%s: %+v %v, want %+v", tt.name, got, err, tt.want)
		}
	}
}

func TestScrape_SeriesThatAPageLacksAreNamed(t *testing.T) {
	const queue, running, kv, old = "vllm:num_requests_waiting 0\n", "vllm:num_requests_running 1\n",
		"vllm:kv_cache_usage_perc 0\n", "vllm:gpu_cache_usage_perc 0\n"
	for _, tt := range []struct {
		name, page string
		metrics    Metrics
		problem    string
	}{
		{"all", queue + running + kv, Metrics{}, ""},
		{"the KV cache's older name", queue + running + old, Metrics{}, ""},
		{"one", queue + kv, Metrics{}, "has no series vllm:num_requests_running, which counts as 0"},
		{
			"two", queue, Metrics{},
			"has no series vllm:num_requests_running, vllm:kv_cache_usage_perc, which count as 0",
		},
		{"a name of the pool", queue + running + kv, Metrics{Running: "nosuch"}, "has no series nosuch, which"},
		{"labels of the pool", "q{of=\"x\"} 2\n" + queue + kv, Metrics{Running: `q{of="y", a=b}`},
			"has no series q{of=y,a=b}, which"},
		{"a name that begins likewise", "vllm:num_requests_running_by_reason{reason=\"capacity\"} 1\n" + queue + kv,
			Metrics{}, "has no series vllm:num_requests_running, which"},
		{"a sample that is ignored, and a series that is missing",
			queue + running + "vllm:lora_requests_info{max_lora=\"1\"} NaN\n", Metrics{},
			"ignored: vllm:lora_requests_info has the value \"NaN\": a value is a number from 0 to 1.1e+15; the page " +
				"has no series vllm:kv_cache_usage_perc, which counts as 0"},
		{"a long name", queue, Metrics{Running: strings.Repeat("q", 5000)}, "has no series qqq"},
	} {
		got, err := parse(tt.page, tt.metrics)
		if err != nil || got.Queue != 0 || got.KV != 0 {
			t.Errorf("%s: what is missing counts: %+v %v, want Queue 0 and KV 0", tt.name, got, err)
		}
		if !strings.Contains(got.Problem, tt.problem) || (got.Problem == "") != (tt.problem == "") ||
			len(got.Problem) > maxProblem {
			t.Errorf("%s: reported as %q, want %q", tt.name, got.Problem, tt.problem)
		}
	}
	for _, page := range []string{
		running + kv, "vllm:num_requests_waiting_by_reason{reason=\"capacity\"} 1\n" + running + kv,
	} {
		if got, err := parse(page, Metrics{}); err == nil ||
			!strings.Contains(err.Error(), "has no series vllm:num_requests_waiting: set ") {
			t.Errorf("a page without waiting requests: got %+v %v, want an error that names the series", got, err)
		}
	}
}

func TestScrape_PageWithAValueThatIsNoLoadIsAnError(t *testing.T) {
	const rest = "vllm:num_requests_running 2\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
	for _, tt := range []struct{ name, page, problem string }{
		{"not a number", rest + "vllm:num_requests_waiting{engine=\"0\"} NaN\n",
			`vllm:num_requests_waiting has the value "NaN"`},
		{"negative", rest + "vllm:num_requests_waiting -1 1700000000000\n",
			`vllm:num_requests_waiting has the value "-1"`},
		{"infinite", rest + "vllm:kv_cache_usage_perc +Inf\n", `vllm:kv_cache_usage_perc has the value "+Inf"`},
		{"percent of the KV cache", rest + "vllm:kv_cache_usage_perc{engine=\"0\"} 45\n",
			`vllm:kv_cache_usage_perc has the value "45": a value is a number from 0 to 1.1`},
		{"percent by the older name", rest + "vllm:gpu_cache_usage_perc 1.5\n",
			`vllm:gpu_cache_usage_perc has the value "1.5": a value is a number from 0 to 1.1`},
		{"a little above what is rounded down", rest + "vllm:kv_cache_usage_perc 1.15\n",
			`vllm:kv_cache_usage_perc has the value "1.15": a value is a number from 0 to 1.1`},
		{"the first of several", rest + "vllm:num_requests_waiting NaN\nvllm:kv_cache_usage_perc -2\n",
			`vllm:num_requests_waiting has the value "NaN"`},
		{"without an end of its labels", rest + "vllm:kv_cache_usage_perc{ 3\n",
			`vllm:kv_cache_usage_perc has the value ""`},
		{"long", rest + "vllm:kv_cache_usage_perc " + strings.Repeat("9", 5000) + "\n",
			`vllm:kv_cache_usage_perc has the value "9999`},
	} {
		if got, err := parse(tt.page, Metrics{}); err == nil || !strings.Contains(err.Error(), tt.problem) ||
			len(err.Error()) > maxProblem {
			t.Errorf("%s: %+v %v, want %q", tt.name, got, err, tt.problem)
		}
	}
	if got, err := parse(rest+"vllm:time_to_first_token_seconds_sum NaN\n", Metrics{}); err != nil ||
		got != (Reading{Running: 2}) {
		t.Errorf("a value of another series: %+v %v, want %+v", got, err, Reading{Running: 2})
	}
	if _, err := parse("other 1\n", Metrics{}); err != errNoSeries {
		t.Errorf("a page without the series: got %v, want %v", err, errNoSeries)
	}
}

func TestScrape_ReadsEachEnginesMetrics(t *testing.T) {
	for engine, page := range map[string]string{
		"sglang": `sglang:num_running_reqs{model_name="m",tp_rank="0"} 3
sglang:num_queue_reqs{model_name="m"} 2.0
sglang:token_usage{model_name="m"} 0.25
sglang:cache_config_info{page_size="64",num_pages="100"} 1.0
sglang:max_total_num_tokens{model_name="m"} 9000
sglang:prompt_tokens_total{model_name="m"} 40
sglang:generation_tokens_total{model_name="m"} 3`,
		"trtllm-serve": `trtllm_num_requests_running{model_name="m"} 3
trtllm_num_requests_waiting{model_name="m"} 2
trtllm_kv_cache_utilization{model_name="m"} 0.25
trtllm_kv_cache_tokens_per_block{model_name="m"} 64
trtllm_kv_cache_max_blocks{model_name="m"} 100`,
		"triton-tensorrt-llm": `nv_trt_llm_request_metrics{model="m",request_type="waiting",version="1"} 2
nv_trt_llm_request_metrics{model="m",request_type="scheduled",version="1"} 3
nv_trt_llm_request_metrics{model="m",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="m"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="m"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="m"} 100`,
		"vllm": vllmPage + `vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 11.5
vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 3
vllm:request_prefill_kv_computed_tokens_sum{engine="0",model_name="m"} 45477.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 40.0
vllm:generation_tokens_total{engine="0",model_name="m"} 3.0
`,
		"llamacpp": `llamacpp:requests_processing 3
llamacpp:requests_deferred 2
llamacpp:prompt_tokens_total 118882
llamacpp:prompt_tokens_cached_total 17
llamacpp:prompt_seconds_total 77.5
llamacpp:tokens_predicted_total 7
`,
	} {
		want := Reading{Queue: 2, Running: 3, KV: 0.25, CacheTokens: 6400}
		switch engine {
		case "vllm":
			want = Reading{Queue: 7, Running: 5, KV: 0.5, PrefillTokens: 45477, PrefillSeconds: 11.5, Prefills: 3,
				Tokens: 43, CountsTokens: true}
		case "llamacpp":
			want = Reading{Queue: 2, Running: 3, PrefillTokens: 118882, PrefillSeconds: 77.5, Tokens: 118889,
				CountsTokens: true}
		case "sglang":
			want.Tokens, want.CountsTokens = 43, true
		}
		for _, label := range endpointpicker.EngineLabels {
			if got, err := parse(page, Metrics{}.forServer(map[string]string{label: engine})); err != nil ||
				got != want {
				t.Errorf("label %s: %s: %+v %v, want %+v", label, engine, got, err, want)
			}
		}
		if got, err := parse(page, Metrics{Engine: Engine(engine)}.forServer(nil)); err != nil || got != want {
			t.Errorf("%s for the pool: %+v %v, want %+v", engine, got, err, want)
		}
	}
	for _, name := range endpointpicker.Engines { // the engines that the translator accepts
		labels := map[string]string{endpointpicker.EngineLabels[0]: name}
		if _, known := dialects[Metrics{Engine: "?"}.forServer(labels).Engine]; !known {
			t.Errorf("engine %s has no dialect", name)
		}
	}
	if got, err := parse("sglang:num_queue_reqs 1\nsglang:max_total_num_tokens 9000\n",
		Metrics{Engine: SGLang}); err != nil || got.CacheTokens != 9000 {
		t.Errorf("SGLang's size of the KV cache: %+v %v, want CacheTokens 9000", got, err)
	}
}

func TestScrape_LabelsSelectAmongASeriesLines(t *testing.T) {
	const page = "reqs{type=\"waiting\",model=\"a,b}\"} 4\nreqs{type=\"waiting\",model=\"c\"} " +
		"8\nreqs{type=\"running\"} 16\nreqs 32\nkv 0.5\n"
	for queue, want := range map[string]float64{
		"reqs": 60, "reqs{type=waiting}": 12, `reqs{type="waiting", model="c"}`: 8, "reqs{}": 60,
	} {
		if got, err := parse(page, Metrics{Queue: queue, Running: "x", KVCache: "kv"}); err != nil ||
			got.Queue != want {
			t.Errorf("%s: %g, want %g (%v)", queue, got.Queue, want, err)
		}
	}
}

func FuzzPage_CountsAreNotNegative(f *testing.F) {
	f.Add([]byte(vllmPage))
	f.Fuzz(func(t *testing.T, page []byte) {
		for engine := range dialects {
			r, err := parse(string(page), Metrics{Engine: engine})
			if err == nil &&
				(r.CacheTokens < 0 || r.Queue < 0 || r.Running < 0 || r.KV < 0 || r.KV > 1 || r.Queue != r.Queue) {
				t.Errorf("got %+v, want counts of 0 or more, and KV of 0 to 1", r)
			}
		}
	})
}

func BenchmarkPage(b *testing.B) {
	page := []byte(
		strings.Repeat(`vllm:e2e_request_latency_seconds_bucket{le="0.5",model_name="meta-llama/Llama-3.1-8B"} 12`+"\n",
			500) + vllmPage)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	vllm := dialects[VLLM]
	text, lines := bytes.NewReader(page), bufio.NewReaderSize(nil, pageBuffer)
	for b.Loop() {
		text.Reset(page)
		lines.Reset(text)
		if _, err := parsePage(lines, vllm); err != nil {
			b.Fatal(err)
		}
	}
}
