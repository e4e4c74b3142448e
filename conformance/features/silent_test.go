package features

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hanging is a model server with a healthy API server. While it hangs, streams get only headers,
// and its metrics page, if it has one, keeps its values.
type hanging struct {
	name   string
	page   bool
	hangs  atomic.Bool
	given  atomic.Int64 // requests, without Penstock's probes
	tokens atomic.Int64
}

func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("x-served-by", h.name)
	switch {
	case r.URL.Path == "/v1/models":
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"llama","object":"model"}]}`)
	case r.URL.Path == "/metrics" && h.page:
		_, _ = fmt.Fprintf(w, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0\n"+
			"vllm:prompt_tokens_total %d\nvllm:generation_tokens_total 0\n", h.tokens.Load())
	case strings.HasSuffix(r.URL.Path, "completions"):
		body, _ := io.ReadAll(r.Body)
		if r.UserAgent() != "penstock" {
			h.given.Add(1)
		}
		stream := strings.Contains(string(body), `"stream": true`)
		for begun := false; h.hangs.Load(); begun = true {
			if stream && !begun {
				w.Header().Set("content-type", "text/event-stream")
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		h.tokens.Add(10)
		if !stream {
			w.Header().Set("content-type", "application/json")
			_, _ = io.WriteString(w, `{"object":"text_completion","choices":[{"index":0,"text":"1"}]}`)
			return
		}
		w.Header().Set("content-type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"1\"}}]}\n\ndata: [DONE]\n\n")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// token sends a streamed request whose client gives up after limit. It returns the server.
func (s *site) token(limit time.Duration) (by string, err error) {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	req, err := request(ctx, s.url("/"), strings.Replace(question, "{", `{"stream": true, `, 1))
	if err != nil {
		return "", err
	}
	got, err := do(client(), req)
	return got.by(), err
}

// A server that sends headers but no token gets no further requests, with or without a metrics
// page. Penstock probes it, and uses it again once it answers.
func TestSilent_ServerWithoutTokensGetsNoRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page  bool
		waits bool // clients do not give up
		edits []edit
	}{
		"frozen counters":                       {page: true, waits: true},
		"frozen counters, clients that give up": {page: true},
		"no page":                               {waits: true},
		"no page, clients that give up":         {},
		"a strategy that reads nothing":         {page: true, waits: true, edits: []edit{with("least-request")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			works, hangs := &hanging{name: "works", page: tt.page}, &hanging{name: "hangs", page: tt.page}
			s.backend("works", works)
			s.backend("hangs", hangs)
			s.up("silent.yaml", tt.edits...)
			both := func() {
				seen := map[string]bool{}
				s.Eventually("both servers serve", func() error {
					by, err := s.token(10 * time.Second)
					seen[by] = seen[by] || err == nil
					return errors.Join(err, because(seen["works"] && seen["hangs"], seen))
				})
			}
			for range 10 { // gives the picker the times to first tokens
				both()
			}
			hangs.hangs.Store(true)
			limit := time.Second
			if tt.waits {
				limit = time.Minute
			}
			s.Eventually("explain names the reason", func() error {
				go func() { _, _ = s.token(limit) }() // half of these requests get no answer
				text := s.explain(s.url("/"))
				return because(strings.Contains(text, "headers only since"), text)
			})
			var all sync.WaitGroup
			given := hangs.given.Load()
			for range 40 {
				all.Go(func() {
					if by, err := s.token(10 * time.Second); err != nil || by != "works" {
						t.Errorf(`got an answer from %q, %v, want "works"`, by, err)
					}
				})
			}
			all.Wait()
			if more := hangs.given.Load() - given; more > 3 {
				t.Errorf("the suspect server got %d more requests, want at most 3", more)
			}
			if n := s.series(`penstock_picker_silent_endpoints{pool="default/chat"}`); n != 1 {
				t.Errorf("%v silent endpoints are counted, want 1", n)
			}
			hangs.hangs.Store(false)
			both()
		})
	}
}

// A server without any answer has no known rate. Penstock detects it by the times of the pool's
// other servers for such prompts.
func TestSilent_ServerThatNeverAnsweredIsFoundByLongPrompts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("works", &hanging{name: "works"})
	hangs := &hanging{name: "hangs"}
	hangs.hangs.Store(true)
	s.backend("hangs", hangs)
	s.up("silent.yaml")
	send := func(body string) {
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		if req, err := request(ctx, s.url("/"), body); err == nil {
			_, _ = do(client(), req)
		}
	}
	s.Eventually("it gets a request", func() error {
		go send(s.prompt(2000, true))
		return because(hangs.given.Load() > 0, "none")
	})
	began := time.Now()
	s.Eventually("explain names the reason", func() error {
		go send(s.prompt(2000, true))
		text := s.explain(s.url("/"))
		return because(strings.Contains(text, "headers only since"), text)
	})
	// Without this comparison, detection takes 20 s.
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it was found after %v, want at most %v", took, 15*time.Second)
	}
}
