package features

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// With tokenUsage, the tokens of plain and streamed responses are counted by model. Without it,
// Penstock does not read responses.
func TestTokenUsage_OutputTokensAreCountedByModel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.up("usage.yaml", with("usage"))
	s.answers("/", http.StatusOK)
	const (
		tokens   = `penstock_picker_model_output_tokens_total{model="llama",pool="default/chat"}`
		requests = `penstock_picker_model_requests_total{model="llama",outcome="served",pool="default/chat"}`
		body     = `{"model": "llama", %s"max_tokens": 7, "messages": [{"role": "user", "content": "a b c d e f g h i j k l m"}]}`
	)
	s.Eventually("tokens of a response are counted", func() error {
		if s.series(tokens) == 0 {
			return errors.New("none")
		}
		return nil
	})
	if text := s.output(); strings.Contains(text, "level=WARN") || !strings.Contains(text, "work-in-progress") {
		t.Errorf("log: got\n%s\nwant Envoy's messages about fields that Penstock chooses, and none as a warning", text)
	}
	for _, more := range []string{"", `"stream": true, "stream_options": {"include_usage": true}, `} {
		before := s.series(tokens)
		if text := s.answered("/", fmt.Sprintf(body, more)).body; !strings.Contains(text, `"completion_tokens":7`) {
			t.Fatalf(`with %s: %s, want a text with "\"completion_tokens\":7"`, more, text)
		}
		s.Eventually("7 more tokens, with "+more, func() error {
			if n := s.series(tokens); n != before+7 {
				return fmt.Errorf("tokens: got %g, want 7 more than %g", n, before)
			}
			return nil
		})
	}
	s.write("usage.yaml")
	s.Eventually("without the policy, responses are not read", func() error {
		before, n := s.series(tokens), s.series(requests)
		s.answered("/", fmt.Sprintf(body, ""))
		s.Eventually("another request ends", func() error {
			s.answered("/", fmt.Sprintf(body, ""))
			if s.series(requests) < n+2 {
				return errors.New("not yet")
			}
			return nil
		})
		if after := s.series(tokens); after != before {
			return fmt.Errorf("tokens: got %g, want %g as before", after, before)
		}
		return nil
	})
}

// A vLLM whose engine core has died ends its streams with an error event, but HTTP reports no
// error.
func TestTokenUsage_StreamThatAnErrorEndsHasFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.mortal("a")
	var code atomic.Int32
	a.fail(func(w http.ResponseWriter) {
		w.Header().Set("content-type", "text/event-stream")
		_, _ = fmt.Fprintf(w,
			"data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"it died\",\"code\":%d}}\n\ndata: [DONE]\n\n",
			code.Load())
	})
	s.up("usage.yaml", with("usage"))
	total := func(outcome string) float64 {
		const series = "penstock_picker_model_requests_total{model=%q,outcome=%q,pool=%q}"
		return s.series(fmt.Sprintf(series, "other", outcome, "default/chat"))
	}
	byServer := fmt.Sprintf("penstock_picker_endpoint_requests_total{endpoint=%q,outcome=%q,pool=%q}", s.address("a"),
		"failed", "default/chat")
	for _, c := range []struct {
		code   int32
		counts float64 // 1 if the error counts against the server
	}{{400, 0}, {500, 1}} {
		code.Store(c.code)
		before, against := total("failed"), s.series(byServer)
		if got := s.answers("/", http.StatusOK); !strings.Contains(got.body, "it died") {
			t.Fatalf(`got %s, want a text with "it died"`, got.body)
		}
		s.Eventually("it is counted as failed", func() error {
			counts := s.series(byServer) - against
			return because(total("failed") == before+1 && total("served") == 0 && counts == c.counts, counts,
				s.metrics())
		})
	}
}
