//go:build engines

package features

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// long returns a prompt of some thousand tokens, which takes an engine much longer than its answer.
// Prompts of different n begin differently, so that none is cached.
func long(n int) string {
	var b strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&b, "word%d ", (i*7919+n*104729)%5000)
	}
	return fmt.Sprintf("%d: %s", n, b.String())
}

// event is an event of a stream, and its time since the request was sent.
type event struct {
	data string
	at   time.Duration
}

func timed(s *site, url, body string) (headers time.Duration, events []event, err error) {
	req, err := request(s.Context(), url, body)
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	resp, err := client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	headers = time.Since(began)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return headers, nil, fmt.Errorf("got %d %s, want 200", resp.StatusCode, text)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			events = append(events, event{data, time.Since(began)})
		}
	}
	return headers, events, lines.Err()
}

// field returns a value of a JSON text by a path of names, or nil.
func field(text string, names ...string) any {
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return nil
	}
	for _, name := range names {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

func modelsOf(s *site, e *engine) (ids []string, err error) {
	got, err := s.get(e.url("/v1/models"))
	if err != nil {
		return nil, err
	}
	list, _ := field(got.body, "data").([]any)
	for _, m := range list {
		message, _ := m.(map[string]any)
		id, _ := message["id"].(string)
		ids = append(ids, id)
	}
	return ids, nil
}

// vllmOnTheWire checks the properties of vLLM's answers on which Penstock relies.
func vllmOnTheWire(t *testing.T, e *engine) {
	s := newSite(t)
	chat := func(text string, stream bool) string {
		return fmt.Sprintf(
			`{"model":"tiny","max_tokens":4,"ignore_eos":true,"stream":%v,"messages":[{"role":"user","content":%q}]}`,
			stream, text)
	}
	t.Run("headers of a stream precede the prompt, and the first body byte does not", func(t *testing.T) {
		headers, events, err := timed(s, e.url("/v1/chat/completions"), chat(long(1), true))
		if err != nil || len(events) < 2 {
			t.Fatalf("got %v, events %v, want at least 2", err, events)
		}
		if headers > events[0].at/2 {
			t.Errorf("got headers after %s and the first event after %s, want at most %s",
				headers, events[0].at, events[0].at/2)
		}
		if role, token := events[0].at, events[1].at; token > role*5/4 {
			t.Errorf("got the role after %s and the first token after %s, want them together", role, token)
		}
	})
	t.Run("an unstreamed answer has its headers at its end", func(t *testing.T) {
		streamed, events, err := timed(s, e.url("/v1/chat/completions"), chat(long(2), true))
		if err != nil || len(events) == 0 {
			t.Fatalf("got %v, %d events, want at least 1", err, len(events))
		}
		headers, _, err := timed(s, e.url("/v1/chat/completions"), chat(long(3), false))
		if err != nil || headers < 3*streamed {
			t.Errorf("got headers after %s, of a stream after %s, %v, want at least %s",
				headers, streamed, err, 3*streamed)
		}
	})
	t.Run("the first event of a response precedes the prompt", func(t *testing.T) {
		body := fmt.Sprintf(`{"model":"tiny","max_output_tokens":4,"stream":true,"input":%q}`, long(4))
		_, events, err := timed(s, e.url("/v1/responses"), body)
		if err != nil || len(events) < 3 {
			t.Fatalf("got %v, events %v, want at least 3", err, events)
		}
		if kind := field(events[0].data, "type"); kind != "response.created" {
			t.Errorf(`got a first event of type %v, want "response.created"`, kind)
		}
		delta := slices.IndexFunc(events, func(e event) bool { return strings.Contains(e.data, ".delta") })
		if delta < 0 || events[0].at > events[delta].at/2 {
			t.Errorf("got the first event after %s, and output at event %d, want at least 0 and at most %s",
				events[0].at, delta, events[delta].at/2)
		}
	})
	t.Run("errors", func(t *testing.T) { vllmErrors(t, s, e) })
	t.Run("metrics", func(t *testing.T) { vllmMetrics(t, s, e) })
	t.Run("the list of models has an adapter as soon as it is loaded", func(t *testing.T) {
		adapter := fmt.Sprintf(`{"lora_name":"late","lora_path":%q}`, e.dir+"/models/tiny-lora-b")
		if got, err := s.post(e.url("/v1/load_lora_adapter"), adapter); err != nil || got.status != 200 {
			t.Fatalf("load of an adapter: got %d %s, %v, want 200", got.status, got.body, err)
		}
		if ids, err := modelsOf(s, e); err != nil || !slices.Contains(ids, "late") {
			t.Errorf(`got models %v, %v, want one of them to be "late"`, ids, err)
		}
		if got, err := s.post(e.url("/v1/unload_lora_adapter"), `{"lora_name":"late"}`); err != nil ||
			got.status != 200 {
			t.Fatalf("unload of an adapter: got %d %s, %v, want 200", got.status, got.body, err)
		}
		if ids, err := modelsOf(s, e); err != nil || slices.Contains(ids, "late") {
			t.Errorf(`models after it was unloaded: got %v, %v, want no "late"`, ids, err)
		}
	})
}

func vllmErrors(t *testing.T, s *site, e *engine) {
	for _, c := range []struct {
		name, path, body string
		status           int
		kind             any
	}{
		{"an unknown model", "/v1/chat/completions", `{"model":"other","messages":[{"role":"user","content":"a"}]}`,
			404, "NotFoundError"},
		{"invalid JSON", "/v1/chat/completions", `{"model":`, 400, "Bad Request"},
		{"an empty body", "/v1/chat/completions", ``, 400, "Bad Request"},
		{"too many tokens", "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":100000}`, 400, nil},
		{"embeddings", "/v1/embeddings", `{"model":"tiny","input":"a"}`, 404, nil},
	} {
		got, err := s.post(e.url(c.path), c.body)
		if err != nil || got.status != c.status {
			t.Errorf("%s: got %d %s, %v; want %d", c.name, got.status, got.body, err, c.status)
		}
		if kind := field(got.body, "error", "type"); c.kind != nil && kind != c.kind {
			t.Errorf("%s: got type %v, want %v", c.name, kind, c.kind)
		}
	}
}

func vllmMetrics(t *testing.T, s *site, e *engine) {
	got, err := s.get(e.url("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{
		"vllm:num_requests_waiting{", "vllm:num_requests_running{", "vllm:kv_cache_usage_perc{",
		"vllm:cache_config_info{", "vllm:request_prefill_time_seconds_sum{",
		"vllm:request_prefill_kv_computed_tokens_sum{", "vllm:prompt_tokens_cached_total{",
	} {
		if !strings.Contains(got.body, "\n"+series) {
			t.Errorf("the page of metrics: got\n%s\nwant %s", got.body, series)
		}
	}
}

func vllmHasAdapter(t *testing.T, s *site, e *engine) {
	adapter := fmt.Sprintf(`{"lora_name":"late","lora_path":%q}`, e.dir+"/models/tiny-lora-b")
	if got, err := s.post(e.url("/v1/load_lora_adapter"), adapter); err != nil || got.status != http.StatusOK {
		t.Fatalf("load of an adapter: got %d %s, %v, want 200", got.status, got.body, err)
	}
	for n := range 40 {
		got, err := s.post(s.base()+"/v1/completions", `{"model":"late","max_tokens":4,"prompt":"a"}`)
		if err != nil || got.status != http.StatusOK {
			t.Errorf("request %d: got %d %s, %v, want %d", n, got.status, got.body, err, http.StatusOK)
		}
	}
	got, err := s.post(e.url("/v1/unload_lora_adapter"), `{"lora_name":"late"}`)
	if err != nil || got.status != http.StatusOK {
		t.Fatalf("unload of an adapter: got %d %s, %v, want 200", got.status, got.body, err)
	}
}

func vllmFails(t *testing.T, e *engine) {
	s := newSite(t)
	core, err := e.core()
	if err != nil {
		t.Fatal(err)
	}
	body :=
		`{"model":"tiny","max_tokens":16000,"ignore_eos":true,"stream":true,"messages":[{"role":"user","content":"a"}]}`
	t.Run("engine core stopped: healthy, headers, and no token", func(t *testing.T) {
		if err := syscall.Kill(core, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Kill(core, syscall.SIGCONT) }()
		req, err := request(s.Context(), e.url("/v1/chat/completions"), body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Timeout: 3 * time.Second}).Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("a stream of a stopped engine: got %v, %v, want 200", resp, err)
		}
		defer func() { _ = resp.Body.Close() }()
		if text, err := io.ReadAll(resp.Body); err == nil || len(text) > 0 {
			t.Errorf("got %q, %v; want nothing until the time limit", text, err)
		}
		if got, err := s.get(e.url("/health")); err != nil || got.status != http.StatusOK {
			t.Errorf("/health of a stopped engine: got %d, %v, want 200", got.status, err)
		}
	})
	t.Run("engine core killed: open streams end with an error, cleanly", func(t *testing.T) {
		req, err := request(s.Context(), e.url("/v1/chat/completions"), body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(core, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		end := string(text[max(0, len(text)-400):])
		if err != nil || !strings.Contains(end, `data: {"error"`) ||
			!strings.HasSuffix(strings.TrimSpace(end), "data: [DONE]") {
			t.Errorf("got the end %q, %v, want an error event and [DONE]", end, err)
		}
		s.Eventually("nothing listens any more", func() error {
			if got, err := s.get(e.url("/health")); err == nil {
				return fmt.Errorf("/health answers %d, want no listener", got.status)
			}
			return nil
		})
	})
}

func llamaOnTheWire(t *testing.T, e *engine) {
	s := newSite(t)
	t.Run("headers of a stream precede the prompt, and the first body byte does not", func(t *testing.T) {
		body := fmt.Sprintf(`{"model":"tiny","max_tokens":4,"stream":true,"messages":[{"role":"user","content":%q}]}`,
			long(1))
		headers, events, err := timed(s, e.url("/v1/chat/completions"), body)
		if err != nil || len(events) < 2 {
			t.Fatalf("got %v, events %v, want at least 2", err, events)
		}
		if headers > events[0].at/2 {
			t.Errorf("got headers after %s and the first event after %s, want at most %s",
				headers, events[0].at, events[0].at/2)
		}
	})
	t.Run("an unknown model is served", func(t *testing.T) {
		got, err := s.post(e.url("/v1/chat/completions"),
			`{"model":"other","max_tokens":1,"messages":[{"role":"user","content":"a"}]}`)
		if err != nil || got.status != 200 {
			t.Errorf("got %d %s, %v, want 200", got.status, got.body, err)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		got, err := s.get(e.url("/metrics"))
		if err != nil {
			t.Fatal(err)
		}
		for _, series := range []string{
			"llamacpp:requests_processing ", "llamacpp:requests_deferred ", "llamacpp:prompt_tokens_total ",
			"llamacpp:prompt_seconds_total ", "llamacpp:tokens_predicted_total ",
		} {
			if !strings.Contains(got.body, "\n"+series) {
				t.Errorf("the page of metrics: got\n%s\nwant %s", got.body, series)
			}
		}
	})
}

func firstToken(t *testing.T, s *site, prompt func(int) string) {
	for i, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			s.Eventually("explain has the client's times", func() error {
				body := fmt.Sprintf(
					`{"model":"tiny","max_tokens":4,"stream":%v,"messages":[{"role":"user","content":%q}]}`, stream,
					prompt(int(time.Now().UnixMicro()%100_000)*2+i))
				req, err := request(s.Context(), s.url("/"), body)
				if err != nil {
					return err
				}
				began := time.Now()
				resp, err := client().Do(req)
				if err != nil {
					return err
				}
				headers := time.Since(began).Seconds()
				_, err = resp.Body.Read(make([]byte, 1))
				first := time.Since(began).Seconds()
				_, rest := io.Copy(io.Discard, resp.Body)
				end := time.Since(began).Seconds()
				if err = errors.Join(err, rest, resp.Body.Close()); err != nil {
					return err
				}
				var text string
				var found []string
				s.Eventually("the request's end is recorded", func() error {
					text = s.explain("--why", resp.Header.Get("x-request-id"))
					found = outcomes.FindStringSubmatch(text)
					return because(found != nil, text)
				})
				for n, want := range []float64{end, headers, first} {
					got, _ := strconv.ParseFloat(found[n+1], 64)
					if got < want*0.9-0.01 || got > want*1.1+0.01 { // 10 %, and the time of a pick
						return fmt.Errorf("got %v, want %v, of end, headers and first byte (%.2f, %.2f, %.2f):\n%s",
							got, want, end, headers, first, text)
					}
				}
				t.Logf("client: headers %.3f s, first byte %.3f s, end %.3f s; explain: %s", headers, first, end,
					found[0])
				return nil
			})
		})
	}
}

type api struct{ name, path, body, has string }

// behindGateway sends a request to each API that both engines have, and to the APIs in more.
func behindGateway(t *testing.T, s *site, more ...api) {
	all := []api{
		{"chat", "/v1/chat/completions", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"a"}]}`,
			`"choices"`},
		{"completions", "/v1/completions", `{"model":"tiny","max_tokens":4,"prompt":"a"}`, `"choices"`},
		{
			"stream", "/v1/chat/completions",
			`{"model":"tiny","max_tokens":4,"stream":true,"messages":[{"role":"user","content":"a"}]}`, "data: [DONE]",
		},
		{"responses", "/v1/responses", `{"model":"tiny","max_output_tokens":4,"input":"a"}`, `"output"`},
		{"messages", "/v1/messages", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"a"}]}`,
			`"content"`},
	}
	for _, a := range append(all, more...) {
		t.Run(a.name, func(t *testing.T) {
			got, err := s.post(s.base()+a.path, a.body)
			if err != nil || got.status != http.StatusOK || !strings.Contains(got.body, a.has) {
				t.Errorf("got %d %s, %v; want 200 with %s", got.status, got.body, err, a.has)
			}
		})
	}
}

func (s *site) listed(text string) {
	s.Helper()
	s.Eventually("the pool serves", func() error {
		got, err := s.get(s.base() + "/v1/models")
		return errors.Join(err, because(strings.Contains(got.body, text), got.body))
	})
}

func TestEngines_LlamaCpp(t *testing.T) {
	s := newSite(t)
	a, b := s.engine("llamacpp", "a"), s.engine("llamacpp", "b")
	s.starts(a, b)
	t.Run("wire", func(t *testing.T) { llamaOnTheWire(t, a) })
	s.up("engines.yaml")
	s.listed(`"tiny"`)
	t.Run("gateway", func(t *testing.T) {
		behindGateway(t, s)
	})
	t.Run("first token", func(t *testing.T) { firstToken(t, s, long) })
	t.Run("embeddings", func(t *testing.T) {
		e := newSite(t)
		one, other := e.engine("llamacpp", "a", "--embeddings"), e.engine("llamacpp", "b", "--embeddings")
		e.starts(one, other)
		e.up("engines.yaml")
		e.Eventually("embeddings are served", func() error {
			got, err := e.post(e.base()+"/v1/embeddings", `{"model":"tiny","input":"a text"}`)
			if err == nil && !strings.Contains(got.body, `"embedding"`) {
				err = fmt.Errorf("got %d %s, want an embedding", got.status, got.body)
			}
			return err
		})
	})
}

func TestEngines_VLLM(t *testing.T) {
	s := newSite(t)
	s.publishers()
	a, b := s.engine("vllm", "a"), s.engine("vllm", "b")
	s.starts(a, b)
	t.Run("wire", func(t *testing.T) { vllmOnTheWire(t, a) })
	s.up("engines.yaml")
	s.listed(`"adapter-a"`)
	t.Run("gateway", func(t *testing.T) {
		behindGateway(t, s,
			api{"an adapter", "/v1/completions", `{"model":"adapter-a","max_tokens":4,"prompt":"a"}`, `"adapter-a"`},
		)
	})
	t.Run("first token", func(t *testing.T) { firstToken(t, s, long) })
	t.Run("rates", func(t *testing.T) { vllmRates(t, s, a, b) })
	t.Run("KV events", func(t *testing.T) {
		s.write("engines.yaml", with("kvevents"))
		engineHits(t, s, a, b)
	})
	t.Run("an adapter at one server", func(t *testing.T) { vllmHasAdapter(t, s, b) })
	t.Run("failures", func(t *testing.T) { vllmFails(t, b) })
}
