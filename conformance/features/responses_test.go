package features

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// A request that follows a response, or names it in its path, goes to the server that stores the
// response, streamed or not. Without responseAffinity, some get 404 from the other server.
func TestResponseAffinity_FollowUpFindsItsResponse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.keepers("a", "b")
	s.up("responses.yaml", with("affinity"))
	s.begins(t)
	seen := map[string]bool{}
	for i := range 8 {
		stream := i%2 == 1
		id, by, err := s.respond("", stream)
		if err != nil {
			t.Fatal(err)
		}
		seen[by] = true
		for turn := range 5 {
			next, again, err := s.respond(id, stream)
			if err != nil || again != by {
				why := s.explain("--last", "1")
				t.Fatalf("turn %d, stream %t: %s, then %s: %v, want the same server\n%s", turn, stream, by, again, err,
					why)
			}
			id = next
		}
		for _, path := range []string{"", "/cancel", "/input_items?limit=1"} {
			got, err := s.get(s.base() + "/v1/responses/" + id + path)
			if err != nil || got.status != http.StatusOK || got.by() != by {
				t.Errorf("%s of %s: got %d from %s, %v, want 200 from %s", path, id, got.status, got.by(), err, by)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("all responses are at %v: nothing is shown, want 2 of them", seen)
	}
	if text := s.explain("--last", "1"); !strings.Contains(text,
		"it names a response, and goes to the server that keeps it") {
		t.Errorf("explain: got\n%s\nwant that the response's server was chosen", text)
	}
	if id, _, err := s.respond("resp_unknown", false); err == nil || !strings.HasPrefix(err.Error(), "404") {
		t.Errorf("an unknown response: got %q %v, want 404", id, err)
	}
	s.write("responses.yaml", with("plain"))
	s.Eventually("without the field, a follow-up goes to either server", func() error {
		id, _, err := s.respond("", false)
		if err != nil {
			return err
		}
		for range 4 {
			if _, _, err = s.respond(id, false); err != nil {
				return nil
			}
		}
		return errors.New("all were answered")
	})
}

func TestResponseAffinity_EveryProcessFindsTheResponse(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.keepers("a", "b")
	other := s.twoProcesses("responses.yaml", with("affinity"))
	s.attach(s.ads())
	s.begins(t)
	for i := range 20 {
		id, by, err := s.respond("", i%2 == 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, err := s.respond(id, false); err != nil || again != by {
			t.Errorf("request %d: %s, then %s: %v, want the same server", i, by, again, err)
		}
	}
	for _, at := range []*site{s, other} {
		if !strings.Contains(at.metrics(), `penstock_picker_picks_total{pool="default/chat",result="picked"}`) {
			t.Error("a process has picked nothing: nothing is shown")
		}
	}
}

func TestResponseAffinity_FollowUpFindsItsCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.keepers("a", "b")
	s.up("responsesimport.yaml")
	s.begins(t)
	seen := map[string]bool{}
	for i := range 20 {
		stream := i%2 == 1
		id, by, err := s.respond("", stream)
		if err != nil {
			t.Fatal(err)
		}
		seen[by] = true
		if _, again, err := s.respond(id, stream); err != nil || again != by {
			t.Fatalf("request %d: %s, then %s: %v, want the same server\n%s", i, by, again, err,
				s.explain("--last", "1"))
		}
	}
	if len(seen) != 2 {
		t.Errorf("all responses are at %v: nothing is shown, want 2 of them", seen)
	}
}
