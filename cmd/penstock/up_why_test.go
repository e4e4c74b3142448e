package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

// A request's pick is explained at each of two processes, whichever has made it.
func TestExplain_WhyOfPastRequestAtAnyProcess(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	files := chatFiles(port, modelServer(t, sim.Config{Name: "pod-1"}), modelServer(t, sim.Config{Name: "pod-2"}))
	sites := twoProcesses(t, files, port)
	by := map[string]bool{}
	for n := 0; n < 4 || len(by) < 2 && n < 100; n++ { // Envoy asks either
		got := answers(t, local(port), http.StatusOK)
		id := got.header.Get("x-request-id")
		for _, s := range sites {
			eventually(t, "the outcome is known", func() error {
				var found app.FoundPicks
				if err := json.Unmarshal([]byte(s.penstock("explain", "--why", id, "-o", "json")), &found); err != nil {
					return err
				}
				if len(found.Picks) != 1 || found.Silent != 0 || found.Picks[0].Outcome == nil || !found.Picks[0].Outcome.Ended {
					return fmt.Errorf("%+v", found)
				}
				r := found.Picks[0]
				if r.Request != id || r.Outcome.Status != http.StatusOK || r.Outcome.Served != strings.Split(r.Endpoints, ",")[0] || r.Candidates != 2 || r.Pool != "default/chat" || r.Outcome.Took < r.Outcome.Begun {
					t.Errorf("%+v %+v", r, r.Outcome)
				}
				by[r.Picker] = true
				return nil
			})
			if text := s.penstock("explain", "--why", id); !strings.Contains(text, "served by 127.0.0.1:") || !strings.Contains(text, "request "+id) || strings.Count(text, "127.0.0.1:") < 4 || !strings.Contains(text, " rank ") || !strings.Contains(text, " 2 candidates") {
				t.Errorf("explain --why:\n%s", text)
			}
		}
	}
	if len(by) != 2 {
		t.Errorf("picks of %d processes, want both", len(by))
	}
	var last app.FoundPicks
	if err := json.Unmarshal([]byte(sites[1].penstock("explain", "--last", "5", "--pool", "default/chat", "-o", "json")), &last); err != nil || len(last.Picks) != 5 {
		t.Errorf("the last five: %d, %v", len(last.Picks), err)
	}
	_, mistake := penstock(t, "explain", "--last", "5", "--pool", "chat", "-f", sites[0].dir, "--state", sites[0].state)
	if want := "there is no pool chat: the process has default/chat"; mistake == nil || mistake.Error() != want {
		t.Errorf("a pool that does not exist: %v, want %q", mistake, want)
	}
	if text := sites[0].penstock("explain", local(port)+"/v1/models"); !strings.Contains(text, "headers only") {
		t.Errorf("a request without a body:\n%s", text)
	}
	if text := sites[0].penstock("explain", local(port)+"/v1/chat/completions", "-X", "POST"); !strings.Contains(text, "headers and body") {
		t.Errorf("a request with a prompt:\n%s", text)
	}
}
