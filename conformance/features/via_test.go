package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Three gateways that each send requests to the next form a ring. Requests end with 508.
func TestVia_RingOfGatewaysEndsARequest(t *testing.T) {
	t.Parallel()
	sites := []*site{newSite(t), newSite(t), newSite(t)}
	for i, s := range sites {
		s.ports["next"] = sites[(i+1)%3].ports["gateway"]
		s.up("via.yaml")
	}
	ended := func(text string) {
		t.Helper()
		sites[0].Eventually("the request has "+text, func() error {
			got, err := sites[0].ask("/", question)
			ended := got.status == http.StatusLoopDetected && strings.Contains(got.body, text) &&
				got.header.Get("x-penstock-reason") == "gateway_loop"
			return because(ended, got, err)
		})
	}
	ended("passed through 4 gateways")
	sites[0].write("via.yaml", with("once"))
	ended("passed through 1 gateways")
}

// Requests to another cluster's gateway have a Via, and clients get none. The other gateway runs in
// the test, because its answer needs a Via.
func TestVia_NamesGatewaysToOthersAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.backend("next", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Via", "1.1 inside")
		_, _ = fmt.Fprint(w, strings.Join(r.Header.Values("Via"), ", "))
	}))
	s.server("here-1")
	s.up("via.yaml", with("half"))
	s.answers("/", http.StatusOK)
	s.answers("/half", http.StatusOK)
	for sent, want := range map[string]string{"": "1.1 penstock", "2 theirs": "2 theirs,1.1 penstock"} {
		var headers []string
		if sent != "" {
			headers = []string{"via", sent}
		}
		if got := s.answered("/", question, headers...); got.body != want || got.header.Get("via") != "" {
			t.Errorf("after %q the gateway gets %q, and the client %q, want %q and no via", sent, got.body,
				got.header.Get("via"), want)
		}
	}
	for range 20 { // half of the requests would otherwise go to the other cluster
		if by := s.served("/half", "via", "1.1 penstock, 1.1 penstock,2 theirs,1.1 penstock,1.1 penstock"); by !=
			"here-1" {
			t.Errorf(`a request that has passed through 4 gateways is served by %q, want "here-1"`, by)
		}
	}
}
