package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestSpill_FullPoolSpillsAnd429WhenAllAreFull(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("fast-1", "--inter-token-latency", "50ms")
	s.server("spare-1", "--inter-token-latency", "50ms")
	s.up("spill.yaml")
	s.Eventually("an idle pool serves its own requests", func() error {
		if by := s.served("/"); by != "fast-1" {
			return fmt.Errorf(`got an answer of %q, want "fast-1"`, by)
		}
		return nil
	})
	// The picker receives a request's end later than the client, so either server may be first.
	busy, ends := map[string]bool{}, []func(){}
	occupy := func() error {
		by, end, err := s.occupy("/")
		if err == nil {
			busy[by], ends = true, append(ends, end)
		}
		return err
	}
	s.Eventually("one server is busy", occupy)
	s.Eventually("the other is busy", occupy)
	if !busy["fast-1"] || !busy["spare-1"] {
		t.Errorf("two requests went to %v, want fast-1 and spare-1", busy)
	}
	var full reply
	s.Eventually("a third request is answered 429", func() (err error) {
		if full, err = s.ask("/", question); err == nil && full.status != http.StatusTooManyRequests {
			err = fmt.Errorf("got %d %s, want 429", full.status, full.body)
		}
		return err
	})
	if full.by() != "" || full.header.Get("retry-after") == "" {
		t.Errorf("429 came from %q, with retry-after %q, want from no server, with one", full.by(),
			full.header.Get("retry-after"))
	}
	text := s.explain("--why", full.header.Get("x-request-id"))
	if !strings.Contains(text, "429 pool_full") ||
		!strings.Contains(text, "picker.full.inFlight 1: 1 at one endpoint") {
		t.Errorf("explain --why of a request that is answered 429: got\n%s\nwant pool_full and picker.full.inFlight 1",
			text)
	}
	for _, end := range ends {
		end()
	}
	s.Eventually("the pool serves again", func() error {
		if got, err := s.ask("/", question); err != nil || got.status != http.StatusOK {
			return fmt.Errorf("got %d %s %w, want 200", got.status, got.body, err)
		}
		return nil
	})
}
