package features

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func (s *site) llmd(name string, args ...string) {
	s.Helper()
	path, err := filepath.Abs("../../.tools/bin/llm-d-inference-sim")
	if err != nil {
		s.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		s.Fatalf("%v: `make sims` builds it", err)
	}
	s.ports[name] = s.Port()
	s.program(name, path, append([]string{"--model", "llama", "--port", fmt.Sprint(s.ports[name]), "--mode", "echo"},
		args...)...)
	s.Eventually(name+" answers", func() error {
		_, err := s.get("http://" + s.address(name) + "/health")
		return err
	})
}

// Picks depend on the metrics of llm-d-inference-sim, which is independent of Penstock.
func TestLoad_IdleServerIsPickedByItsMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.llmd("busy", "--fake-metrics", `{"running-requests": 5, "waiting-requests": 40, "kv-cache-usage": 0.95}`)
	s.llmd("idle")
	s.up("load.yaml")
	s.answers("/", http.StatusOK)
	s.Eventually("the busy server's queue is known", func() error {
		e := s.explanation()
		for _, v := range e.Verdicts {
			if v.Address == s.address("busy") && v.State.Queue == 40 {
				return nil
			}
		}
		return fmt.Errorf("explain: got %+v, want server busy with 40 queued", e)
	})
	for range 10 {
		if got := s.answers("/", http.StatusOK); !strings.Contains(got.body, "repeat this") {
			t.Errorf("got %s, want an echo", got.body)
		}
	}
	events := 0
	if err := s.stream(t.Context(), "/", "one two three", func(string) { events++ }); err != nil || events < 3 {
		t.Errorf("streamed: %d events, %v, want at least 3", events, err)
	}
	// The busy server has at most the first request, which came before its metrics were scraped.
	got, err := s.get("http://" + s.address("idle") + "/metrics")
	if err != nil || !strings.Contains(got.body, "vllm:") {
		t.Fatalf("the metrics of idle: got %v\n%s\nwant vllm:", err, got.body)
	}
	if out := s.explain(s.url("/")); !strings.Contains(out, "now") || !strings.Contains(out, s.address("idle")) {
		t.Errorf("explain: got\n%s\nwant a pick now, at %s", out, s.address("idle"))
	}
}
