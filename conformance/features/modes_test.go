package features

import (
	"net/http"
	"strings"
	"testing"
)

func TestModes_EndpointModeAndParentModeServe(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("here-1")
	s.server("east-1")
	s.exporter("modes.yaml", with("exporter"))
	s.up("modes.yaml", with("here"))
	for _, path := range []string{"/relayed", "/declared", "/parent", "/all"} {
		s.allServedBy(path, "east-1", 5)
	}
	served := map[string]int{}
	for range 40 {
		served[s.answers("/half", http.StatusOK).by()]++
	}
	// Requests are random, so that all 40 on one side have a probability of 1 in 500 billion.
	if served["here-1"] == 0 || served["east-1"] == 0 || len(served) != 2 {
		t.Errorf("50:50 went to %v, want some to each of here-1 and east-1", served)
	}
	out := s.explain(s.base() + "/half/v1/models")
	if !strings.Contains(out, "50.0% of requests to InferencePool default/chat") ||
		strings.Count(out, ", the first for 33.3% of these requests") != 3 {
		t.Errorf("explain: got\n%s\nwant 50.0%% for InferencePool default/chat, and 33.3%% three times", out)
	}
	// A remote picker may only name addresses in the declared ranges.
	s.write("modes.yaml", with("here"), swap("127.0.0.0/8", "10.0.0.0/8"))
	s.answers("/relayed", http.StatusServiceUnavailable)
}
