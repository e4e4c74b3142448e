package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var adapterQuestion = strings.Replace(question, "llama", "sql", 1)

func (s *site) load(server, action, adapter string) {
	s.Helper()
	body := fmt.Sprintf(`{"lora_name":%q,"lora_path":"/adapters/x"}`, adapter)
	got, err := s.post("http://"+s.address(server)+"/v1/"+action+"_lora_adapter", body)
	if err != nil || got.status != http.StatusOK {
		s.Fatalf("%s of %s at %s: %d %s %v, want %d", action, adapter, server, got.status, got.body, err, http.StatusOK)
	}
}

// A server without the adapter answers 404. Servers load and unload adapters at run time.
func TestAdapters_RequestsGoToTheServerThatHasTheirs(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a", "--lora", "sql")
	s.server("b")
	s.up("adapters.yaml")
	s.answers("/", http.StatusOK)
	forty := func(by string) {
		t.Helper()
		for n := range 40 {
			if got := s.answered("/", adapterQuestion); got.by() != by {
				t.Fatalf("request %d is served by %s, want %s", n, got.by(), by)
			}
		}
	}
	forty("a")
	id := s.answered("/", adapterQuestion).header.Get("x-request-id")
	if text := s.explain("--why", id); !strings.Contains(text,
		"1 server left out: GET /v1/models does not list the model") {
		t.Errorf("explain --why: got\n%s\nwant why b is left out", text)
	}
	s.load("b", "load", "sql")
	s.load("a", "unload", "sql")
	failed := 0 // failures until the access log reports the first 404
	s.Eventually("40 requests in a row follow the adapter", func() error {
		for range 40 {
			got, err := s.ask("/", adapterQuestion)
			if err == nil && got.status == http.StatusOK && got.by() == "b" {
				continue
			}
			failed++
			return fmt.Errorf(`got %d from %q, %w, want 200 from "b"`, got.status, got.by(), err)
		}
		return nil
	})
	if failed > 20 {
		t.Errorf("%d requests have failed until b served them, want at most 20", failed)
	}
}

// Before a server loads the adapter, no server's list of models has it.
func TestAdapters_FirstRequestForANewOneIsServed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("a")
	s.server("b")
	s.up("adapters.yaml")
	s.answers("/", http.StatusOK)
	for n := range 8 {
		name, by := fmt.Sprint("late-", n), []string{"a", "b"}[n%2]
		s.load(by, "load", name)
		for range 10 {
			if got := s.answered("/", strings.Replace(question, "llama", name, 1)); got.by() != by {
				t.Fatalf("%s is served by %s, want %s", name, got.by(), by)
			}
		}
	}
}

func TestAdapters_ListsThatAreWrongRejectNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	got := map[string]bool{}
	for name, list := range map[string]string{"a": `{"data":[{"id":"alias"}]}`, "b": "no list"} {
		s.backend(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-served-by", name)
			if strings.HasSuffix(r.URL.Path, "/v1/models") {
				_, _ = w.Write([]byte(list))
			}
		}))
	}
	s.up("adapters.yaml")
	s.answers("/", http.StatusOK)
	for range 40 {
		got[s.served("/")] = true
	}
	if len(got) != 2 {
		t.Errorf("servers of requests for a model that no list has: got %v, want 2", got)
	}
}
