package preprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/external/router"
	"github.com/penstock-project/penstock/picker/external/tokenstore"
)

func letters(text string) ([]uint32, error) {
	out := make([]uint32, len(text))
	for i := range len(text) {
		out[i] = uint32(text[i])
	}
	return out, nil
}

func program(t *testing.T, cfg external.ServerConfig, release string, paths func(*external.Server)) string {
	t.Helper()
	cfg.Release = release
	server := external.NewServer(cfg)
	paths(server)
	at := httptest.NewServer(server)
	t.Cleanup(at.Close)
	return at.URL
}

func processor(t *testing.T, cfg Config) *Processor {
	t.Helper()
	cfg.Tokenize, cfg.Log = letters, slog.New(slog.DiscardHandler)
	p, err := New(cfg, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ask(t *testing.T, p *Processor, body string) (status int, a answer) {
	t.Helper()
	server := external.NewServer(ServerConfig())
	p.Paths(server)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/process", strings.NewReader(body)))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Errorf("answer %s: %v, want JSON", w.Body, err)
		}
	}
	return w.Code, a
}

// Process answers with and without route, with and without a token store, and while the router or
// the store fails.
func TestProcess_EachBranchAnswers(t *testing.T) {
	store := tokenstore.New(tokenstore.Config{}, prometheus.NewRegistry())
	storeURL := program(t, tokenstore.ServerConfig(), "", store.Paths)
	routes, err := router.New(router.Config{Workers: []string{"worker-3:8080"}}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	routerURL := program(t, router.ServerConfig(), "", routes.Paths)
	gone := httptest.NewServer(nil)
	gone.Close()
	const (
		text  = "user: ab\n"
		value = "[117,115,101,114,58,32,97,98,10]"
	)
	for _, c := range []struct {
		name           string
		router, tokens string
		route          string
		worker         string
		key            bool
	}{
		{"routed, token store", routerURL, storeURL, `,"route":true`, "worker-3:8080", true},
		{"routed, token IDs in the body", routerURL, "", `,"route":true`, "worker-3:8080", false},
		{"own scheduling, token store", routerURL, storeURL, "", "", true},
		{"own scheduling, token IDs in the body", routerURL, "", "", "", false},
		{"route is false", routerURL, storeURL, `,"route":false`, "", true},
		{"there is no router", "", storeURL, `,"route":true`, "", true},
		{"the router is away", gone.URL, storeURL, `,"route":true`, "", true},
		{"the token store is away", routerURL, gone.URL, `,"route":true`, "worker-3:8080", false},
		{"both are away", gone.URL, gone.URL, `,"route":true`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := processor(t, Config{Router: c.router, Tokens: c.tokens})
			status, a := ask(t, p, `{"request_body":{"model":"llama","messages":[{"role":"user","content":"ab"}]`+
				c.route+`},"headers":{"x-request-id":"req-123"}}`)
			if status != http.StatusOK || a.Worker != c.worker || (a.Key != "") != c.key || (a.Value != "") == c.key {
				t.Fatalf("got %d %+v, want 200, worker %q, a key: %t", status, a, c.worker, c.key)
			}
			got := a.Value
			if c.key {
				got = string(store.Get(a.Key))
			}
			if got != value {
				t.Errorf("the tokens of %q: %s, want %s", text, got, value)
			}
		})
	}
}

func TestProcess_PeerOfAnotherReleaseIsNotUsed(t *testing.T) {
	store := tokenstore.New(tokenstore.Config{}, prometheus.NewRegistry())
	routes, err := router.New(router.Config{Workers: []string{"worker-3:8080"}}, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range []string{"v0.1.4", "v0.2.0"} {
		p := processor(t, Config{})
		var log strings.Builder
		p.log = slog.New(slog.NewTextHandler(&log, nil))
		p.router, err = external.NewPeer(external.PeerConfig{
			Name: "router", URL: program(t, router.ServerConfig(), release, routes.Paths), Release: "v0.1.0",
		})
		if err != nil {
			t.Fatal(err)
		}
		p.tokens, err = tokenstore.NewClient(program(t, tokenstore.ServerConfig(), "v0.1.0", store.Paths), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			status, a := ask(t, p, `{"request_body":{"prompt":"a","route":true}}`)
			if used := release == "v0.1.4"; status != http.StatusOK || (a.Worker != "") != used || a.Key == "" {
				t.Errorf("router of %s: got %d %+v, want 200, a key, and a worker: %t", release, status, a, used)
			}
		}
		if n := strings.Count(log.String(),
			"it is of release v0.2.0 and this program of v0.1.0: run both from one release "+
				"of the chart"); (release == "v0.2.0") != (n == 1) {
			t.Errorf("router of %s, three requests: got the log %s, want the releases once in it: %t",
				release, log.String(), release == "v0.2.0")
		}
	}
}

func TestProcess_PromptOfEveryAPI(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},{"type":"text","text":"b"}]},{"role":"assistant","content":null}]}`: "system: s\nuser: a b\n",
		`{"system":"s","messages":[{"role":"user","content":"a"}]}`:                          "system: s\nuser: a\n",
		`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"a"}]}`: "system: s\nuser: a\n",
		`{"tools":[{"type":"function"}],"messages":[{"role":"user","content":"a"}]}`:         "tools: [{\"type\":\"function\"}]\nuser: a\n",
		`{"prompt":"a"}`:                            "a",
		`{"prompt":["a"]}`:                          "a",
		`{"input":"a","instructions":"s"}`:          "system: s\nuser: a\n",
		`{"input":[{"role":"user","content":"a"}]}`: "user: a\n",
	} {
		var f fields
		if err := json.Unmarshal([]byte(body), &f); err != nil {
			t.Fatal(err)
		}
		if got, _, err := f.text(); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", body, got, err, want)
		}
	}
	if _, a := ask(t, processor(t, Config{}), `{"request_body":{"prompt":[1,15043]},"headers":{}}`); a.Value !=
		"[1,15043]" {
		t.Errorf(`token IDs of the client: %+v, want Value "[1,15043]"`, a)
	}
}

func TestProcess_InvalidRequestsNameWhatIsWrong(t *testing.T) {
	p := processor(t, Config{})
	for body, want := range map[string]int{
		``: 400, `[]`: 400, `{}`: 400, `{"request_body":null}`: 400, `{"request_body":"a"}`: 400,
		`{"request_body":{}}`: 422, `{"request_body":{"messages":[]}}`: 422, `{"request_body":{"prompt":""}}`: 422,
		`{"request_body":{"prompt":["a","b"]}}`:         422,
		`{"request_body":{"messages":[{"content":1}]}}`: 422, `{"request_body":{"input":1}}`: 422,
		`{"request_body":{"system":1,"prompt":"a"}}`:                             422,
		`{"request_body":{"messages":` + strings.Repeat("[", 20000) + `}}`:       400,
		`{"request_body":{"prompt":"` + strings.Repeat("a", maxText+1) + `"}}`:   413,
		`{"request_body":{"prompt":"` + strings.Repeat("a", maxTokens+1) + `"}}`: 413,
	} {
		if status, _ := ask(t, p, body); status != want {
			t.Errorf("%.60s: %d, want %d", body, status, want)
		}
	}
	if _, err := p.process(t.Context(), []byte(`{"request_body":{"messages":[{"content":"a"},{"content":7}]}}`),
		""); err == nil || !strings.Contains(err.Error(), "request_body.messages[1].content") {
		t.Error(err)
	}
	for body, want := range map[string]string{
		`{"request_body":{"messages":5}}`: "request_body.messages must be a list, and a value in it is of " +
			"type number",
		`{"request_body":{"messages":["a"]}}`:        "request_body.messages must be an object",
		`{"request_body":{"messages":[{"role":5}]}}`: "request_body.messages.role must be a text",
		`{"request_body":"a"}`:                       "request_body must be an object, ",
		`{"request_body":`:                           "the body is not JSON: ",
		`{"headers":{}}`:                             "the body must be a JSON object with request_body",
	} {
		if _, err := p.process(t.Context(), []byte(body), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.process(ctx, []byte(`{"request_body":{"prompt":"a"}}`), ""); err == nil {
		t.Error("a request whose caller left was answered")
	}
}

func TestProcess_TraceContextReachesPeers(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	seen := make(chan string, 2)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("traceparent")
		fmt.Fprint(w, `{"worker_address":"a:1"}`)
	}))
	defer at.Close()
	if _, err := processor(t, Config{Router: at.URL, Tokens: at.URL}).process(t.Context(),
		[]byte(`{"request_body":{"prompt":"a","route":true}}`), parent); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := <-seen; got != parent {
			t.Errorf("traceparent %q, want %q", got, parent)
		}
	}
}

// FuzzProcess_AnswersOrNamesTheError checks that every body gets token IDs or a client error,
// without a panic.
func FuzzProcess_AnswersOrNamesTheError(f *testing.F) {
	for _, seed := range []string{
		`{"request_body":{"model":"m","messages":[{"role":"user","content":"a"}],"route":true},"headers":{"x-request-id":"1"}}`,
		`{"request_body":{"prompt":[1,2]}}`,
		`{"request_body":{"input":[{"role":"user","content":[{"text":"a"}]}],"instructions":"b"}}`,
		`{"request_body":{"system":[{"text":"a"}],"tools":[{}],"messages":[{}]}}`, `{"request_body":{"input":""}}`,
		`{"request_body":{"input":null,"prompt":null}}`,
	} {
		f.Add([]byte(seed))
	}
	p, err := New(Config{Tokenize: letters}, prometheus.NewRegistry())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := p.process(t.Context(), body, "")
		if err != nil {
			if mistake, ok := err.(*invalid); !ok || mistake.status < 400 || mistake.status > 499 ||
				mistake.Error() == "" {
				t.Errorf("got %v, want a mistake of status 400 to 499 with a text", err)
			}
			return
		}
		var tokens []uint32
		if err := json.Unmarshal([]byte(a.Value), &tokens); err != nil || len(tokens) == 0 || a.Worker != "" ||
			a.Key != "" {
			t.Errorf("got %+v: %v, want tokens alone", a, err)
		}
	})
}
