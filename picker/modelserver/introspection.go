package modelserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shownBody bounds the part of the last request's body on /debug/last, in bytes. The length and the
// hash on this page are of the whole body.
const shownBody = 64 << 10

// vllmVersion is the answer to /version, by which routers recognize vLLM.
const vllmVersion = "0.32.0"

type received struct {
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Host    string      `json:"host"`
	Proto   string      `json:"proto"`
	Headers http.Header `json:"headers"`
	Bytes   int         `json:"bytes"`
	SHA256  string      `json:"sha256"` // hexadecimal
	Body    string      `json:"body"`
}

func newReceived(r *http.Request, body []byte) *received {
	sum, headers := sha256.Sum256(body), maps.Clone(r.Header)
	// Every client may read /debug/last, so credentials are redacted.
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key"} {
		if values := headers[name]; len(values) > 0 {
			headers[name] = slices.Repeat([]string{"redacted"}, len(values))
		}
	}
	return &received{
		Method: r.Method, Path: r.URL.RequestURI(), Host: r.Host, Proto: r.Proto, Headers: headers,
		Bytes: len(body), SHA256: hex.EncodeToString(sum[:]), Body: string(body[:min(len(body), shownBody)]),
	}
}

func (s *Server) debugLast(w http.ResponseWriter, _ *http.Request) {
	last := s.last.Load()
	if last == nil {
		writeError(w, &apiError{http.StatusNotFound, "NotFoundError", "no request to a model has arrived yet"})
		return
	}
	writeJSON(w, last)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string  `json:"id"`
		Object  string  `json:"object"`
		Created int64   `json:"created"`
		OwnedBy string  `json:"owned_by"`
		Root    string  `json:"root"`
		Parent  *string `json:"parent"`
	}
	list := []model{{s.cfg.Model, "model", s.started.Unix(), "penstock", s.cfg.Model, nil}}
	for _, lora := range s.loras() {
		list = append(list, model{lora, "model", s.started.Unix(), "penstock", lora, &s.cfg.Model})
	}
	writeJSON(w, map[string]any{"object": "list", "data": list})
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	now := s.engine.load()
	var b strings.Builder
	metric := func(kind, name, help, labels string, value float64) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s{%s} %s\n", name, help, name, kind, name, labels,
			strconv.FormatFloat(value, 'g', -1, 64))
	}
	model := label("model_name", s.cfg.Model)
	metric("gauge", "vllm:num_requests_running", "Running requests.", model, float64(now.running))
	metric("gauge", "vllm:num_requests_waiting", "Requests in the queue.", model, float64(now.waiting))
	metric("gauge", "vllm:kv_cache_usage_perc", "Fraction of the KV cache in use, 0 to 1.", model, now.kvCache)
	metric("counter", "vllm:prompt_tokens_total", "Tokens of prompts.", model, float64(s.promptTokens.Load()))
	metric("counter", "vllm:request_prefill_kv_computed_tokens_sum", "Tokens of prompts that were computed.", model,
		float64(s.prefillTokens.Load()))
	metric("counter", "vllm:request_prefill_time_seconds_sum", "Time that reading prompts took.", model,
		time.Duration(s.prefillTime.Load()).Seconds())
	metric("counter", "vllm:request_prefill_time_seconds_count", "Prompts that were read.", model,
		float64(s.prefills.Load()))
	metric("counter", "vllm:generation_tokens_total", "Tokens of answers.", model, float64(s.generationTokens.Load()))
	metric("counter", "vllm:request_success_total", "Requests that succeeded.",
		label("finished_reason", "stop")+","+model, float64(s.stopped.Load()))
	fmt.Fprintf(&b, "vllm:request_success_total{%s,%s} %d\n", label("finished_reason", "length"), model, s.cut.Load())
	metric("gauge", "vllm:cache_config_info", "The KV cache's shape.",
		label("block_size", strconv.Itoa(blockSize))+","+label("num_gpu_blocks", strconv.Itoa(s.engine.blocks)), 1)
	if len(s.loras()) > 0 {
		// As in vLLM, the value is the current time: readers use the series with the latest time.
		metric("gauge", "vllm:lora_requests_info", "Running and waiting adapters.",
			label("max_lora", strconv.Itoa(s.engine.maxLoRAs))+","+
				label("running_lora_adapters", strings.Join(now.runningLoRAs, ","))+","+
				label("waiting_lora_adapters", strings.Join(now.waitingLoRAs, ",")),
			float64(time.Now().UnixMilli())/1000)
	}
	w.Header().Set("content-type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}

var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func label(name, value string) string { return name + `="` + labelValue.Replace(value) + `"` }

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has disconnected
}
