package modelserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func serve(t *testing.T, cfg Config) (*Server, string) {
	t.Helper()
	if cfg.Model == "" {
		cfg.Model = "base"
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return s, server.URL
}

func ask(t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: got %s, %v: %s, want 200", url, resp.Status, err, body)
	}
	return string(body)
}

func hold(t *testing.T, url, model string) (release func()) {
	t.Helper()
	return holdRequest(t, url+"/v1/completions", `{"prompt":"a","model":"`+model+`"}`)
}

func holdRequest(t *testing.T, url, body string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	release = func() { cancel(); <-done }
	t.Cleanup(release)
	return release
}

// gauges parses /metrics. It returns the value and the labels of the first series of each name.
func gauges(t *testing.T, url string) (map[string]float64, map[string]map[string]string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(get(t, url+"/metrics")))
	if err != nil {
		t.Fatal(err)
	}
	values, labels := map[string]float64{}, map[string]map[string]string{}
	for name, family := range families {
		m := family.GetMetric()[0]
		values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		labels[name] = map[string]string{}
		for _, l := range m.GetLabel() {
			labels[name][l.GetName()] = l.GetValue()
		}
	}
	return values, labels
}

func waitForMetrics(t *testing.T, url string, want map[string]float64) {
	t.Helper()
	poll.NoError(t, "metrics", poll.Limit, func() error {
		values, _ := gauges(t, url)
		for name, value := range want {
			if values[name] != value {
				return fmt.Errorf("%s is %v, want %v", name, values[name], value)
			}
		}
		return nil
	})
}

func TestChatCompletion_AnswerNamesServerAndRepeatsPrompt(t *testing.T) {
	_, url := serve(t, Config{Name: "pod-7"})
	body :=
		`{"model":"base","messages":[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":"hello  big world"}]}]}`
	status, headers, got := ask(t, url+"/v1/chat/completions", body)
	var a answer
	if err := json.Unmarshal([]byte(got), &a); err != nil || status != 200 {
		t.Fatalf("%d %v: %s, want 200", status, err, got)
	}
	if len(a.Choices) != 1 || *a.Choices[0].Message.Content != "pod-7 answers: hello big world" ||
		*a.Choices[0].Finish != "stop" || a.Object != "chat.completion" {
		t.Errorf(`got %s, want a chat.completion of "pod-7 answers: hello big world" with finish stop`, got)
	}
	if *a.Usage != (usage{5, 5, 10, nil}) {
		t.Errorf("usage %+v, want 5 + 5", *a.Usage)
	}
	if headers.Get("x-served-by") != "pod-7" || "http://"+headers.Get("x-served-at") != url {
		t.Errorf("headers %v, want x-served-by pod-7 and x-served-at %s", headers, url)
	}
	if _, _, again := ask(t, url+"/v1/chat/completions", body); !strings.Contains(again,
		*a.Choices[0].Message.Content) {
		t.Errorf("the same prompt gave %s, want a text with %q", again, *a.Choices[0].Message.Content)
	}
}

func events(t *testing.T, body string) []string {
	t.Helper()
	var all []string
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			all = append(all, data)
		} else if lines.Text() != "" {
			t.Fatalf("not an event: %q", lines.Text())
		}
	}
	return all
}

func TestStreaming_ChunksAddUpToTheAnswer(t *testing.T) {
	_, url := serve(t, Config{Name: "pod-7", InterTokenLatency: time.Microsecond})
	for _, c := range []struct{ path, asked, role string }{
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"one two"}]`, "assistant"},
		{"/v1/completions", `"prompt":"one two"`, ""},
	} {
		path := c.path
		_, headers, got := ask(t, url+path, `{"stream":true,"stream_options":{"include_usage":true},`+c.asked+`}`)
		if !strings.HasPrefix(headers.Get("content-type"), "text/event-stream") {
			t.Errorf(`%s: content type %s, want the beginning "text/event-stream"`, path, headers.Get("content-type"))
		}
		all := events(t, got)
		if len(all) != 7 || all[6] != "[DONE]" { // 4 words, the end, the usage, [DONE]
			t.Fatalf("%s: %d events, want 4 words, the end, the usage and [DONE]: %s", path, len(all), got)
		}
		var text, role, finish string
		var counted *usage
		for _, event := range all[:6] {
			var a answer
			if err := json.Unmarshal([]byte(event), &a); err != nil {
				t.Fatal(err)
			}
			if a.Usage != nil {
				counted = a.Usage
			}
			for _, c := range a.Choices {
				if c.Delta != nil {
					role, text = role+c.Delta.Role, text+*c.Delta.Content
				} else {
					text += *c.Text
				}
				if c.Finish != nil {
					finish += *c.Finish
				}
			}
		}
		if text != "pod-7 answers: one two" || finish != "stop" || counted == nil || counted.TotalTokens != 6 {
			t.Errorf(`%s: text %q, finish %q, usage %+v; want "pod-7 answers: one two", stop, and 6 tokens`,
				path, text, finish, counted)
		}
		if role != c.role {
			t.Errorf("%s: role %q, want %q", path, role, c.role)
		}
		if !strings.Contains(all[5], `"choices":[]`) {
			t.Errorf("%s: the usage event has no empty list of choices: %s", path, all[5])
		}
	}
}

func TestMaxTokens_LimitsTheAnswer(t *testing.T) {
	_, url := serve(t, Config{})
	for _, c := range []struct{ path, body, text, finish string }{
		{"/v1/completions", `{"prompt":"a b c","max_tokens":3}`, "sim answers: a", "length"},
		{"/v1/completions", `{"prompt":["a b"],"max_tokens":9}`, "sim answers: a b", "stop"},
		{"/v1/completions", `{"prompt":"a","max_tokens":7,"ignore_eos":true}`, "sim answers: a sim answers: a sim",
			"length"},
		{"/v1/completions", `{"prompt":[1,2]}`, "sim answers: 1 2", "stop"},
		{"/v1/completions", `{"prompt":"1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6"}`, "sim answers: 1 2 3 4 5 6 7 8 9 0 1 2 3 4",
			"length"},
		{
			"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"a b"}],"max_tokens":99,"max_completion_tokens":1}`, "sim", "length",
		},
	} {
		_, _, got := ask(t, url+c.path, c.body)
		var a answer
		if err := json.Unmarshal([]byte(got), &a); err != nil || len(a.Choices) != 1 {
			t.Fatalf("%s: got %v: %s, want one choice", c.body, err, got)
		}
		text := a.Choices[0].Text
		if text == nil {
			text = a.Choices[0].Message.Content
		}
		if *text != c.text || *a.Choices[0].Finish != c.finish ||
			a.Usage.CompletionTokens != len(strings.Fields(c.text)) {
			t.Errorf("%s: got %s, want text %q and finish %s", c.body, got, c.text, c.finish)
		}
	}
}

func TestCompletion_InvalidRequestGetsOpenAIError(t *testing.T) {
	_, url := serve(t, Config{KVCacheTokens: 64})
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/v1/completions", `{"prompt"`, 400},
		{"/v1/completions", `{"model":"base"}`, 400},
		{"/v1/completions", `{"prompt":["a","b"]}`, 400},
		{"/v1/completions", `{"prompt":"a","n":2}`, 400},
		{"/v1/completions", `{"prompt":"a","max_tokens":0}`, 400},
		{"/v1/completions", `{"prompt":"a","max_tokens":64}`, 400},
		{"/v1/chat/completions", `{"messages":[]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":1}]}`, 400},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"` + strings.Repeat("w ", 40) + `"}]}`, 400},
		{"/v1/completions", `{"prompt":"a","model":"other"}`, 404},
	} {
		status, _, got := ask(t, url+c.path, c.body)
		var e struct {
			Error struct {
				Message string
				Code    int
			}
		}
		if err := json.Unmarshal([]byte(got), &e); err != nil || status != c.status || e.Error.Code != c.status ||
			e.Error.Message == "" {
			t.Errorf("%s: got %d %s, want %d", c.body, status, got, c.status)
		}
	}
}

func TestQueue_RequestsBeyondSlotsWaitAndAreCounted(t *testing.T) {
	_, url := serve(t, Config{MaxNumSeqs: 2, KVCacheTokens: 160, TimeToFirstToken: time.Hour})
	first := hold(t, url, "")
	waitForMetrics(t, url,
		map[string]float64{"vllm:num_requests_running": 1, "vllm:num_requests_waiting": 0,
			"vllm:kv_cache_usage_perc": 0.1})
	for range 3 {
		hold(t, url, "")
	}
	waitForMetrics(t, url,
		map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 2,
			"vllm:kv_cache_usage_perc": 0.2})
	first() // a client that disconnects makes room for the next request
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 1})
}

func TestPrefill_PromptsAreReadOneAfterTheOther(t *testing.T) {
	_, url := serve(t, Config{MaxPrefills: 1, PrefillRate: 100, InterTokenLatency: time.Hour})
	holdRequest(t, url+"/v1/completions", `{"prompt":"a"}`)
	waitForMetrics(t, url, map[string]float64{"vllm:prompt_tokens_total": 1, "vllm:num_requests_running": 1})
	long := `{"prompt":"` + strings.Repeat("b ", 30_000) + `"}`
	// The first prompt is read, and its answer runs.
	reading := holdRequest(t, url+"/v1/completions", long)
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 0})
	holdRequest(t, url+"/v1/completions", `{"prompt":"c"}`)
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 1})
	reading() // this client disconnects
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 0})
}

func TestStreaming_HeadersDoNotWaitForTheQueue(t *testing.T) {
	_, url := serve(t, Config{MaxNumSeqs: 1, TimeToFirstToken: time.Hour})
	hold(t, url, "")
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 1})
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("x-served-by") != "sim" {
		t.Errorf("got %s %v, want 200 served by sim", resp.Status, resp.Header)
	}
	// A request whose client has disconnected leaves the queue.
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_waiting": 0})
}

func TestKVCache_FullCacheMakesRequestsWait(t *testing.T) {
	_, url := serve(t, Config{KVCacheTokens: 32, TimeToFirstToken: time.Hour})
	for range 3 {
		hold(t, url, "")
	}
	waitForMetrics(t, url,
		map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 1,
			"vllm:kv_cache_usage_perc": 1})
	_, labels := gauges(t, url)
	if got := fmt.Sprint(labels["vllm:cache_config_info"]); got != "map[block_size:16 num_gpu_blocks:2]" {
		t.Errorf(`cache_config_info %s, want "map[block_size:16 num_gpu_blocks:2]"`, got)
	}
}

func TestLoRA_AdapterWithoutSlotWaitsAndOthersPass(t *testing.T) {
	_, url := serve(t, Config{LoRAs: []string{"sql", "chat"}, MaxLoRAs: 1, TimeToFirstToken: time.Hour})
	sql := hold(t, url, "sql")
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 1})
	hold(t, url, "chat")
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_waiting": 1})
	hold(t, url, "base")
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 1})
	_, labels := gauges(t, url)
	if got := fmt.Sprint(labels["vllm:lora_requests_info"]); got !=
		"map[max_lora:1 running_lora_adapters:sql waiting_lora_adapters:chat]" {
		t.Errorf("lora_requests_info %s, want %q",
			got, "map[max_lora:1 running_lora_adapters:sql waiting_lora_adapters:chat]")
	}
	sql()
	waitForMetrics(t, url, map[string]float64{"vllm:num_requests_running": 2, "vllm:num_requests_waiting": 0})
	if _, labels := gauges(t, url); labels["vllm:lora_requests_info"]["running_lora_adapters"] != "chat" {
		t.Errorf("lora_requests_info %v, want chat running", labels["vllm:lora_requests_info"])
	}
}

func TestModels_ListIncludesAdapters(t *testing.T) {
	_, url := serve(t, Config{LoRAs: []string{"sql"}})
	var list struct {
		Data []struct {
			ID     string
			Parent *string
		}
	}
	if err := json.Unmarshal([]byte(get(t, url+"/v1/models")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Data) != 2 || list.Data[0].ID != "base" || list.Data[0].Parent != nil || list.Data[1].ID != "sql" ||
		*list.Data[1].Parent != "base" {
		t.Errorf("got %+v, want base, and sql whose parent it is", list)
	}
}

func TestFailRate_FailsConfiguredShare(t *testing.T) {
	_, url := serve(t, Config{FailRate: 0.25, Status: 429})
	var got []int
	for range 8 {
		status, _, _ := ask(t, url+"/v1/completions", `{"prompt":"a"}`)
		got = append(got, status)
	}
	if fmt.Sprint(got) != "[200 200 200 429 200 200 200 429]" {
		t.Errorf("got %v, want every fourth 429", got)
	}
	waitForMetrics(t, url,
		map[string]float64{"vllm:request_success_total": 6, "vllm:prompt_tokens_total": 6,
			"vllm:generation_tokens_total": 18})
}

func TestDebugLast_ShowsLatestRequest(t *testing.T) {
	_, url := serve(t, Config{})
	body := `{"prompt":"<b> 12345678901234567890"}`
	req, err := http.NewRequest("POST", url+"/v1/completions?q=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-destination-endpoint", "10.0.0.1:8000")
	req.Header.Set("Authorization", "Bearer of-a-client")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	var last received
	if err := json.Unmarshal([]byte(get(t, url+"/debug/last")), &last); err != nil {
		t.Fatal(err)
	}
	if last.Headers.Get("x-gateway-destination-endpoint") != "10.0.0.1:8000" || last.Body != body ||
		last.Bytes != len(body) || last.Path != "/v1/completions?q=1" || len(last.SHA256) != 64 ||
		last.Headers.Get("Authorization") != "redacted" {
		t.Errorf("got %+v, want the request as it was sent, with its authorization redacted", last)
	}
}

func TestDrain_RequestsInFlightEnd(t *testing.T) {
	s, err := New(Config{Model: "base", Listen: []string{"127.0.0.1:0", "127.0.0.1:0"}, Grace: poll.Limit,
		InterTokenLatency: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := s.Listen()
	if err != nil || len(addresses) != 2 {
		t.Fatal(addresses, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	result := make(chan error, 1)
	go func() { result <- s.Run(ctx) }()

	// Run must also serve cleartext HTTP/2.
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	resp, err := client.Post("http://"+addresses[1]+"/v1/completions", "application/json",
		strings.NewReader(`{"prompt":"a b c","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.Header.Get("x-served-at") != addresses[1] {
		t.Errorf("got %s from %s, want HTTP/2 from %s", resp.Proto, resp.Header.Get("x-served-at"), addresses[1])
	}
	first := make([]byte, 6)
	if _, err := io.ReadFull(resp.Body, first); err != nil {
		t.Fatal(err)
	}
	stop()
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the answer was cut: %v: %s, want [DONE] at its end", err, rest)
	}
	select {
	case err := <-result:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(poll.Limit):
		t.Fatal("Run did not return")
	}
	if _, err := net.Dial("tcp", addresses[0]); err == nil {
		t.Error("the socket is still open")
	}
}

func TestConfig_InvalidOneIsAnError(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no model": {}, "an adapter with the model's name": {Model: "m", LoRAs: []string{"m"}},
		"a fail rate above one": {Model: "m", FailRate: 1.5}, "a status below 200": {Model: "m", Status: 99},
		"a cache below one block": {Model: "m", KVCacheTokens: 8}, "a negative count": {Model: "m", MaxNumSeqs: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s was accepted, want an error", name)
		}
	}
}
