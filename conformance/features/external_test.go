package features

import (
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// Each branch of the diagram in Dynamo's proposal is tested with penstock-external as processor,
// router and token store.
func TestExternal_EachBranchOfTheProposalReachesTheWorker(t *testing.T) {
	t.Parallel()
	path, err := process.Build(t.Context(), t.TempDir(), "penstock-external")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	program := func(name string, args ...string) string {
		t.Helper()
		s.ports[name] = s.Port()
		s.program(name, path, append(args, "--listen", s.address(name))...)
		url := "http://" + s.address(name)
		s.Eventually(name+" serves", func() error {
			got, err := s.get(url + "/healthz")
			return because(err == nil && got.status == http.StatusOK, got.status, err)
		})
		return url
	}
	store := program("store", "tokens")
	s.server("worker-1", "--tokens", store)
	s.server("worker-2", "--tokens", store)
	choices := program("router", "router", "--worker", s.address("worker-2"))
	s.closed("gone")
	gone := "http://" + s.address("gone")
	branches := []struct {
		name, router, tokens, member string
		routed                       bool
		from                         string // source of the worker's token IDs
	}{
		{"routed-key", choices, store, `,"route":true`, true, "store"},
		{"routed-value", choices, "", `,"route":true`, true, "body"},
		{"own-key", choices, store, "", false, "store"},
		{"own-value", choices, "", "", false, "body"},
		{"not-routed", choices, store, `,"route":false`, false, "store"},
		{"no-router", gone, store, `,"route":true`, false, "store"},
		{"no-store", choices, gone, `,"route":true`, true, "body"},
		{"neither", gone, gone, `,"route":true`, false, "body"},
	}
	for _, b := range branches {
		program("p-"+b.name, "processor", "--router", b.router, "--tokens", b.tokens)
	}
	s.up("external.yaml")
	for _, b := range branches {
		t.Run(b.name, func(t *testing.T) {
			s.answers("/"+b.name, http.StatusOK)
			served := map[string]bool{}
			for range 4 {
				body := `{"model":"llama","max_tokens":2,"messages":[{"role":"user","content":"ab"}]` + b.member + `}`
				got := s.answered("/"+b.name, body, "x-req-tokens-key", "of-another-tenant")
				served[got.by()] = true
				// "user: ab " is four tokens in o200k_base, and one word.
				if text := strings.ReplaceAll(got.body, " ", ""); got.header.Get("x-tokens-from") != b.from ||
					!strings.Contains(text, `"prompt_tokens":4`) {
					t.Errorf("from %s: got token IDs from %q: %s, want from %q, and 4 tokens of the prompt", got.by(),
						got.header.Get("x-tokens-from"), got.body, b.from)
				}
			}
			if b.routed != (len(served) == 1) || b.routed && !served["worker-2"] {
				t.Errorf("routed %t: served by %v, want worker-2 alone if routed, else several", b.routed, served)
			}
			for worker := range served {
				if last := s.last(worker); strings.Contains(last.Body, `"route"`) {
					t.Errorf(`the worker gets %s, want no "route"`, last.Body)
				}
			}
		})
	}
}
