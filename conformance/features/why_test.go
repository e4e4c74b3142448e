package features

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker"
)

// explain --why shows what the pick compared, and the time and result of each stage.
func TestWhy_ShowsTheStagesOfAPastRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	s.up("why.yaml")
	got, err := s.ask("/", question)
	if err != nil || got.status != http.StatusOK {
		t.Fatalf("%d %v, want %d", got.status, err, http.StatusOK)
	}
	address := fmt.Sprint("127.0.0.1:", s.ports[got.by()])
	var text string
	s.Eventually("the request's end is known", func() error {
		if text = s.explain("--why", got.header.Get("x-request-id")); !strings.Contains(text, "served by "+address) {
			return fmt.Errorf("explain --why: got\n%s\nwant served by %s", text, address)
		}
		return nil
	})
	for _, want := range []string{
		`stages +admit +\d+\.\d{3} ms\n`,
		`read +\d+\.\d{3} ms  ` + fmt.Sprint(len(question)) + ` bytes of the body\n`,
		`find +\d+\.\d{3} ms  pool default/chat, strategy load\n`,
		`rank +\d+\.\d{3} ms  2 candidates\n`,
		`lease +\d+\.\d{3} ms  \w+\.\w+\n`,
		`answer +\d+\.\d{3} ms  ` + regexp.QuoteMeta(address),
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("got\n%s\nwant %s", text, want)
		}
	}
}

// Two processes serve one Envoy, which calls either of them. Each process explains the picks of
// both.
func TestWhy_OfPastRequestAtAnyProcess(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	sites := []*site{s, s.twoProcesses("why.yaml")}
	s.attach(s.ads())
	s.answers("/", http.StatusOK)
	by := map[string]bool{}
	for n := 0; n < 4 || len(by) < 2 && n < 100; n++ {
		id := s.answered("/", question).header.Get("x-request-id")
		for _, at := range sites {
			by[at.explained(id).Picker] = true
			text := at.explain("--why", id)
			for _, want := range []string{"served by 127.0.0.1:", "request " + id, " rank ", " 2 candidates"} {
				if !strings.Contains(text, want) {
					t.Errorf("explain --why: got\n%s\nwant %q", text, want)
				}
			}
			if n := strings.Count(text, "127.0.0.1:"); n < 4 {
				t.Errorf("explain --why names %d addresses, want at least 4:\n%s", n, text)
			}
		}
	}
	if len(by) != 2 {
		t.Errorf("picks of %d processes, want both", len(by))
	}
	if last := sites[1].picks("--last", "5", "--pool", "default/chat"); len(last.Picks) != 5 {
		t.Errorf("the last five: %d, want 5", len(last.Picks))
	}
	_, mistake := s.command("explain", "--last", "5", "--pool", "chat")
	if want := "there is no pool chat: the process has default/chat"; mistake == nil ||
		!strings.Contains(mistake.Error(), want) {
		t.Errorf("a pool that does not exist: %v, want %q", mistake, want)
	}
	if text := s.explain(s.base() + "/v1/models"); !strings.Contains(text, "headers only") {
		t.Errorf("explain of a request without a body: got\n%s\nwant headers only", text)
	}
	if text := s.explain(s.url("/"), "-X", "POST"); !strings.Contains(text, "headers and body") {
		t.Errorf("explain of a request with a prompt: got\n%s\nwant headers and body", text)
	}
}

type picks struct {
	Picks  []picker.Record
	Silent int
}

func (s *site) picks(args ...string) (out picks) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.explain(append(args, "-o", "json")...)), &out); err != nil {
		s.Fatal(err)
	}
	return out
}

// explained waits until the outcome of a request is known, which must be 200, and returns its pick.
func (s *site) explained(id string) (r picker.Record) {
	s.Helper()
	s.Eventually("the outcome is known", func() error {
		found := s.picks("--why", id)
		if len(found.Picks) != 1 || found.Silent != 0 || found.Picks[0].Outcome == nil ||
			!found.Picks[0].Outcome.Ended {
			return fmt.Errorf("picks of the request: got %+v, want 1 with its outcome", found)
		}
		r = found.Picks[0]
		return nil
	})
	first, _, _ := strings.Cut(r.Endpoints, ",")
	if o := r.Outcome; r.Request != id || o.Status != http.StatusOK || o.Served != first || r.Candidates != 2 ||
		r.Pool != "default/chat" || o.Took < o.Begun {
		s.Errorf("got %+v %+v, want request %s served at %s with 200, of 2 candidates of default/chat", r, r.Outcome,
			id, first)
	}
	return r
}
