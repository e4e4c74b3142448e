package features

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

type usedRow struct {
	Owner, Model, Pool                                                     string
	Requests, Denied, Failed, Estimated, Input, Cached, Output, GPUSeconds float64
}

type usedAnswer struct {
	Since   int64
	Until   int64
	Problem string
	Rows    []usedRow
}

// used runs penstock usage -o json, and returns the first row of an owner.
func (s *site) used(owner string, args ...string) (row usedRow, err error) {
	s.Helper()
	out, err := s.command(append([]string{"usage", "-o", "json"}, args...)...)
	var answer usedAnswer
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	for _, r := range answer.Rows {
		if r.Owner == owner {
			return r, errors.Join(err, because(answer.Problem == "", answer.Problem))
		}
	}
	return row, errors.Join(err, fmt.Errorf("got %s, want a row of %q", out, owner))
}

// uses waits until an owner's row equals want, except for Cached and GPUSeconds.
func (s *site) uses(owner string, want usedRow, args ...string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%s has used %+v", owner, want), func() error {
		got, err := s.used(owner, args...)
		if err == nil {
			got.GPUSeconds, got.Cached = want.GPUSeconds, want.Cached
			err = because(got == want, fmt.Sprintf("%+v", got))
		}
		return err
	})
}

// usedQuestion has more words than a block of the server's prefix cache.
var usedQuestion = `{"model": "llama", %s"max_tokens": 7, "messages": [{"role": "user", "content": "` +
	strings.Repeat("word ", 40) + `"}]}`

// Requests are counted once by owner and key, with the tokens that servers report: for pools and
// Services, for denied requests, and across a restart.
func TestUsage_CallersTokensAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--prefix-caching")
	alice, bob := s.keys("create", "alice"), s.keys("create", "bob", "--owner", "Bob")
	s.up("used.yaml", with("gate"))
	s.Eventually("a request passes", func() error {
		got := s.outcome("/", bearer(bob)...)
		return because(got == "200", got)
	})
	var input, output float64
	ask := func(path, more, key string) {
		t.Helper()
		var answer struct {
			Usage struct {
				Input  float64 `json:"prompt_tokens"`
				Output float64 `json:"completion_tokens"`
			}
		}
		body := s.answered(path, fmt.Sprintf(usedQuestion, more), bearer(key)...).body
		for line := range strings.Lines(body) {
			_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &answer)
		}
		input, output = input+answer.Usage.Input, output+answer.Usage.Output
	}
	for range 5 {
		ask("/", "", alice)
		ask("/", `"stream": true, "stream_options": {"include_usage": true}, `, alice)
	}
	if output != 70 || input == 0 {
		t.Fatal("the server has counted", input, output)
	}
	s.outcome("/", bearer("sk-ps-wrong")...)
	s.outcome("/")
	want := usedRow{Owner: "default/alice", Model: "llama", Pool: "default/chat", Requests: 10, Input: input,
		Output: output}
	s.uses("default/alice", want)
	s.uses("", usedRow{Denied: 2})
	if row, err := s.used("default/alice"); err != nil || row.GPUSeconds <= 0 || row.Cached <= 0 {
		t.Errorf("GPU seconds and cached tokens: got %+v %v, want both above 0", row, err)
	}
	row := func(requests float64) usedRow {
		return usedRow{Owner: "default/alice", Requests: requests, Input: input, Output: output}
	}
	ask("/web", "", alice)
	s.uses("default/alice", row(11), "--by", "owner")
	s.stop()
	s.uses("default/alice", row(11), "--by", "owner")
	s.up("used.yaml", with("gate"))
	s.Eventually("a request passes", func() error {
		got := s.outcome("/", bearer(bob)...)
		return because(got == "200", got)
	})
	ask("/", "", alice)
	s.uses("default/alice", row(12), "--by", "owner")
	if text := s.print("usage", "--by", "owner"); !strings.Contains(text, "default/Bob") ||
		!strings.Contains(text, "counted since") {
		t.Errorf("penstock usage: got\n%s\nwant default/Bob, and since when it counts", text)
	}
}

func TestUsage_KillCountsNothingTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	alice := s.keys("create", "alice")
	s.up("used.yaml", with("gate"))
	s.Eventually("a request passes", func() error {
		got := s.outcome("/", bearer(alice)...)
		return because(got == "200", got)
	})
	const series = `penstock_usage_requests_total{outcome="served",owner="default/alice"}`
	for range 5 {
		s.answered("/", question, bearer(alice)...)
	}
	var counted float64
	s.Eventually("the process has counted", func() error {
		counted = s.series(series)
		return because(counted >= 6, counted)
	})
	s.kill()
	s.Eventually("the state folder has the counts", func() error {
		got, err := s.used("default/alice", "--by", "owner")
		return errors.Join(err, because(got.Requests == counted, got, " of ", counted))
	})
	s.up("used.yaml", with("gate"))
	s.Eventually("another request passes", func() error {
		got := s.outcome("/", bearer(alice)...)
		return because(got == "200", got)
	})
	s.Eventually("the counts go on", func() error {
		now := s.series(series)
		got, err := s.used("default/alice", "--by", "owner")
		return errors.Join(err, because(now > 0 && got.Requests == counted+now, got, counted, now))
	})
}

// A stream without reported usage is estimated, and marked as such. With usage: Exact, the server
// must report it.
func TestUsage_StreamWithoutReportIsEstimatedUnlessExact(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	alice := s.keys("create", "alice")
	s.up("used.yaml", with("gate"))
	const body = `{"model": "llama", "stream": true, "max_tokens": 100, "ignore_eos": true, ` +
		`"messages": [{"role": "user", "content": "hello"}]}`
	s.Eventually("a request passes", func() error {
		got := s.outcome("/", bearer(alice)...)
		return because(got == "200", got)
	})
	if text := s.answered("/", body, bearer(alice)...).body; strings.Contains(text, "completion_tokens") {
		t.Fatalf("got %s, want no usage that the client has not asked for", text)
	}
	s.Eventually("it is estimated", func() error {
		got, err := s.used("default/alice", "--by", "owner")
		return errors.Join(err, because(got.Estimated == 1 && got.Output > 80 && got.Output < 125+30, got))
	})
	before, err := s.used("default/alice", "--by", "owner")
	if err != nil {
		t.Fatal(err)
	}
	s.write("used.yaml", with("exact"))
	s.Eventually("the server reports the stream", func() error {
		text := s.answered("/", body, bearer(alice)...).body
		return because(strings.Contains(text, `"completion_tokens":100`), text)
	})
	s.Eventually("it counts as reported", func() error {
		got, err := s.used("default/alice", "--by", "owner")
		reported := got.Requests - before.Requests - (got.Estimated - before.Estimated)
		return errors.Join(err, because(reported >= 1 && got.Output >= before.Output+100, got, before))
	})
}

// A server's false reports change only the counts of the request's owner.
func TestUsage_ServersClaimsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var answer atomic.Pointer[string]
	set := func(text string) { answer.Store(&text) }
	s.backend("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasPrefix(*answer.Load(), "data:") {
			w.Header().Set("content-type", "text/event-stream")
		} else {
			w.Header().Set("content-type", "application/json")
		}
		_, _ = io.WriteString(w, *answer.Load())
		if strings.HasSuffix(*answer.Load(), "cut") {
			panic(http.ErrAbortHandler)
		}
	}))
	set("{}")
	keys := map[string]string{}
	cases := []struct {
		name, answer  string
		output        float64 // -1: estimated
		failed, least float64
	}{
		{name: "huge", answer: `{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],` +
			`"usage":{"prompt_tokens":9223372036854775808,"completion_tokens":9223372036854775808}}`, output: -1},
		{name: "larger", answer: `{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],` +
			`"usage":{"prompt_tokens":1,"completion_tokens":18446744073709551615}}`, output: -1},
		{name: "negative", answer: `{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],` +
			`"usage":{"prompt_tokens":-5,"completion_tokens":-9}}`, output: -1},
		{name: "text", answer: `{"object":"chat.completion","choices":[],"usage":{"completion_tokens":"many"}}`,
			output: -1},
		{name: "twice", answer: streamEvent(1) + streamEvent(2) + usageEvent(5) + usageEvent(7) +
			"data: [DONE]\n\n", output: 7},
		{name: "cut", answer: strings.Repeat(streamEvent(1), 50) + "data: {\"cut", output: -1, failed: 1, least: 20},
	}
	for _, c := range cases {
		keys[c.name] = s.keys("create", c.name)
	}
	s.up("used.yaml", with("gate"))
	s.Eventually("a request passes", func() error {
		got := s.outcome("/web", bearer(keys["huge"])...)
		return because(got == "200", got)
	})
	for _, c := range cases {
		set(c.answer)
		_, _ = s.ask("/", fmt.Sprintf(usedQuestion, ""), bearer(keys[c.name])...)
		s.Eventually(c.name+" is counted", func() error {
			got, err := s.used("default/"+c.name, "--by", "owner,pool")
			for _, r := range []string{"default/chat"} {
				if got.Pool != r {
					got, err = s.usedFrom("default/"+c.name, r)
				}
			}
			wrong := got.Requests != 1 || got.Output < c.least || got.Output > 200 ||
				got.Input < 0 || got.Input > 200 ||
				c.output >= 0 && got.Output != c.output || (c.output < 0) != (got.Estimated == 1)
			return errors.Join(err, because(!wrong, fmt.Sprintf("%+v", got)))
		})
	}
}

func (s *site) usedFrom(owner, pool string) (usedRow, error) {
	s.Helper()
	out, err := s.command("usage", "-o", "json", "--by", "owner,pool")
	var answer usedAnswer
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	for _, r := range answer.Rows {
		if r.Owner == owner && r.Pool == pool {
			return r, err
		}
	}
	return usedRow{}, errors.Join(err, errors.New(out))
}

func streamEvent(n int) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",`+
		`"created":1700000000,"model":"llama","choices":[{"index":0,"delta":{"content":" %d"},"logprobs":null,`+
		`"finish_reason":null}]}`+"\n\n", n)
}

func usageEvent(tokens int) string {
	return fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",`+
		`"created":1700000000,"model":"llama","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%d,`+
		`"total_tokens":%d}}`+"\n\n", tokens, tokens+3)
}

// The usage object counts for each API, also with a query, and if clients accept compression.
func TestUsage_WholeAnswersOfEachAPICountAsReported(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("a", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "application/json")
		text := apiAnswers[strings.TrimPrefix(r.URL.Path, "/web")]
		if !strings.Contains(r.Header.Get("accept-encoding"), "gzip") {
			_, _ = io.WriteString(w, text)
			return
		}
		w.Header().Set("content-encoding", "gzip")
		compressed := gzip.NewWriter(w)
		_, _ = io.WriteString(compressed, text)
		_ = compressed.Close()
	}))
	first, keys := s.keys("create", "first"), map[string]string{}
	for path := range apiAnswers {
		keys[path] = s.keys("create", ownerOf(path))
	}
	s.up("used.yaml", with("gate"))
	const chat = "/v1/chat/completions"
	s.Eventually("a request passes", func() error {
		got := s.outcome("/", bearer(first)...)
		return because(got == "200", got)
	})
	for path, text := range apiAnswers {
		for _, at := range []string{path, path + "?timeout=5"} {
			got, err := s.post(s.base()+at, `{"model": "llama", "prompt": "hi", "input": "hi", "query": "hi"}`,
				append(bearer(keys[path]), "accept-encoding", "gzip")...)
			if err != nil || got.status != http.StatusOK || got.body != text {
				t.Fatalf("%s: %d %q %v, want a body without encoding", at, got.status, got.body, err)
			}
		}
		want := usedRow{Owner: "default/" + ownerOf(path), Requests: 2, Input: 22, Output: 14}
		if !strings.Contains(text, "completion_tokens") && !strings.Contains(text, "output_tokens") {
			want.Output = 0
		}
		s.uses(want.Owner, want, "--by", "owner")
	}
	// A Service's route does not remove accept-encoding. The tokens of a compressed answer are
	// estimated.
	if _, err := s.post(s.base()+"/web"+chat, question,
		append(bearer(keys[chat]), "accept-encoding", "gzip")...); err != nil {
		t.Fatal(err)
	}
	s.Eventually("a compressed answer is estimated", func() error {
		got, err := s.used("default/"+ownerOf(chat), "--by", "owner")
		return errors.Join(err, because(got.Requests == 3 && got.Estimated == 1 && got.Output > 14, got))
	})
}

func ownerOf(path string) string { return strings.Trim(strings.ReplaceAll(path, "/", "-"), "-") }

// apiAnswers has, by path, an unstreamed answer whose usage is 11 prompt tokens and 7 output
// tokens.
var apiAnswers = map[string]string{
	"/v1/chat/completions": `{"object":"chat.completion","choices":[{"message":{"content":"hi"}}],` +
		`"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`,
	"/v1/completions": `{"object":"text_completion","choices":[{"text":"hi"}],` +
		`"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`,
	"/v1/responses": `{"object":"response","output":[],"usage":{"input_tokens":11,"output_tokens":7,` +
		`"total_tokens":18}}`,
	"/v1/messages": `{"type":"message","role":"assistant","content":[],"usage":{"input_tokens":11,"output_tokens":7}}`,
	"/v1/embeddings": `{"object":"list","data":[{"embedding":[` + strings.Repeat("0.123456,", 200) + `1]}],` +
		`"usage":{"prompt_tokens":11,"total_tokens":11}}`,
	"/v1/rerank": `{"results":[{"index":0,"relevance_score":1}],"usage":{"prompt_tokens":11,"total_tokens":11}}`,
}

func TestUsage_CommandIncludesRequestsThatHaveJustEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	alice := s.keys("create", "alice")
	s.up("used.yaml")
	s.answers("/", http.StatusOK)
	s.write("used.yaml", with("gate"))
	s.Eventually("the gate is closed", func() error {
		got := s.outcome("/")
		return because(strings.HasPrefix(got, "401"), got)
	})
	for range 10 {
		s.answered("/", question, bearer(alice)...)
	}
	if got, err := s.used("default/alice", "--by", "owner"); err != nil || got.Requests != 10 {
		t.Errorf("%+v %v, want 10 requests at once", got, err)
	}
	if text := s.print("usage"); !strings.Contains(text, "complete until 20") {
		t.Errorf("penstock usage: got\n%s\nwant that it is complete until a time", text)
	}
}

// A stream that penstock cuts after --stop-timeout counts as failed.
func TestUsage_StreamThatTheStopTimeoutCutsCounts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--inter-token-latency", "20ms")
	alice := s.keys("create", "alice")
	s.flags = []string{"--stop-timeout", "3s"}
	s.up("used.yaml", with("gate"))
	s.Eventually("a request passes", func() error {
		got := s.outcome("/web", bearer(alice)...)
		return because(got == "200", got)
	})
	req, err := request(t.Context(), s.url("/"), `{"model": "llama", "stream": true, "messages": [{"role": "user", `+
		`"content": "`+strings.Repeat("word ", 5000)+`"}]}`, bearer(alice)...)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("got %s, want 200", resp.Status)
	}
	s.stop()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Fatal("the stream has ended before the timeout")
	}
	got, err := s.usedFrom("default/alice", "default/chat")
	if err != nil || got.Requests != 1 || got.Failed != 1 || got.Estimated != 1 || got.Output < 20 {
		t.Errorf("%+v %v, want one failed request with some output", got, err)
	}
}

// If Penstock does not answer Envoy's authorization call, a request gets 503. Penstock logs the
// cause, and counts it.
func TestAccess_RequestWithoutAnAnswerOfTheGateIsLogged(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.keys("create", "alice")
	s.up("used.yaml", with("gate"))
	s.Eventually("the gate is closed", func() error {
		got := s.outcome("/")
		return because(strings.HasPrefix(got, "401"), got)
	})
	s.penstock.Signal(syscall.SIGSTOP)
	s.answers("/", http.StatusServiceUnavailable) // the process stops after a moment
	s.penstock.Signal(syscall.SIGCONT)
	s.logged(`a request got 503 authorization_unavailable`)
	s.Eventually("it is counted", func() error {
		n := s.series("penstock_gate_unavailable_total")
		return because(n >= 1, n)
	})
}
