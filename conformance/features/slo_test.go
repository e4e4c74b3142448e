package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A sheddable request is answered 429 if its first token would come too late for its objective.
func TestSLO_GatewayShedsWhatComesTooLate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("slow", "--time-to-first-token", "300ms")
	s.up("slo.yaml")
	s.answers("/", http.StatusOK)
	s.Eventually("the server's latency is learned", func() error {
		if err := s.stream(t.Context(), "/", "hello", func(string) {}); err != nil {
			return err
		}
		got, err := s.ask("/", question, "x-llm-d-slo-ttft-ms", "100")
		if err != nil || got.status != http.StatusTooManyRequests || got.header.Get("x-penstock-reason") != "shed" {
			return fmt.Errorf("asked for 100 ms: got %d %s %w, want 429 with reason shed", got.status, got.body, err)
		}
		return nil
	})
	s.served("/", "x-llm-d-slo-ttft-ms", "30000")
	if got := s.explain(s.url("/")); !strings.Contains(got, "predicted TTFT") {
		t.Errorf("explain: got\n%s\nwant a predicted TTFT", got)
	}
	s.write("slo.yaml", swap("criticality: Sheddable", "criticality: Sheddable, shedAfter: 100ms"))
	s.answers("/", http.StatusTooManyRequests)
	s.write("slo.yaml", swap("criticality: Sheddable", "criticality: Standard"))
	s.answers("/", http.StatusOK)
}
