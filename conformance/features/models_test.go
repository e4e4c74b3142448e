package features

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func (s *site) models(path string) (reply, error) { return s.get(s.base() + path + "/v1/models") }

func modelNames(text string) (names []string, err error) {
	var list struct {
		Object string
		Data   []struct {
			ID, Object, Parent string
			OwnedBy            string `json:"owned_by"`
			Created            int64
		}
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.Object != "list" {
		return nil, fmt.Errorf(`got %w: %s, want a list`, err, text)
	}
	for _, m := range list.Data {
		if m.OwnedBy == "" && m.Created == 0 { // the entry is of a replaced name, which no server lists
			names = append(names, m.ID+", replaced")
			continue
		}
		if m.Object != "model" || m.OwnedBy != "penstock" || m.Created == 0 {
			err = errors.Join(err, fmt.Errorf("got model %+v, want one of penstock with a time", m))
		}
		if m.Parent != "" {
			m.ID += " of " + m.Parent
		}
		names = append(names, m.ID)
	}
	return names, err
}

// lists waits until a path lists these models. All following answers must be equal.
func (s *site) lists(path string, want ...string) {
	s.Helper()
	list := func() error {
		got, err := s.models(path)
		if err != nil || got.status != http.StatusOK {
			return fmt.Errorf("got %d: %s %w, want 200", got.status, got.body, err)
		}
		if got.header.Get("content-type") != "application/json" || got.by() != "" {
			s.Errorf("%s: got the header %v, want JSON of no server", path, got.header)
		}
		names, err := modelNames(got.body)
		return because(err == nil && slices.Equal(names, want),
			fmt.Sprintf("%s lists %q, want %q %v", path, names, want,
				err))
	}
	s.Eventually(path+" lists models", list)
	for range 6 { // enough requests to reach each backend of the rule
		if err := list(); err != nil {
			s.Error(err)
		}
	}
}

func TestModels_ListHasThoseOfAllPoolsOfTheRule(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("east-1", "--model", "qwen")
	s.server("a", "--lora", "sql,legal")
	s.server("b")
	for name, model := range map[string]string{"c": "mistral", "d": "phi", "e": "gemma"} {
		s.server(name, "--model", model)
	}
	s.backend("silent", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // penstock sim has a list
		http.Error(w, "no list here", http.StatusNotFound)
	}))
	s.exporter("models.yaml", with("exporter"))
	s.up("models.yaml", with("pools"))
	s.lists("", "legal of llama", "llama", "sql of llama")
	s.lists("/two", "fast, replaced", "legal of llama", "llama", "mistral", "sql of llama")
	s.lists("/far", "qwen")
	s.lists("/all", "fast, replaced", "legal of llama", "llama", "mistral", "qwen", "sql of llama")
	s.lists("/spill", "gemma", "phi")
	resp, err := http.Head(s.base() + "/two/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("content-type") != "application/json" {
		t.Errorf("HEAD: got %d %v, want 200 and JSON", resp.StatusCode, resp.Header)
	}
	if got, err := s.models("/silent"); err != nil || got.status != http.StatusNotFound ||
		got.body != "no list here\n" {
		t.Errorf("a pool whose servers have no list: want its server's own answer, got %d: %q %v", got.status, got.body,
			err)
	}
}

// The list is complete, too, for a pool that spills and replaces model names, for an exporting
// cluster with InferenceModels, and for a host without a rule for the list.
func TestModels_ListHasNamesThatPickersReplaceAndThoseOfRoutesByModel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("east-1", "--model", "qwen")
	s.server("a")
	s.server("b")
	for name, model := range map[string]string{"c": "mistral", "d": "phi", "e": "gemma"} {
		s.server(name, "--model", model)
	}
	s.closed("silent")
	s.exporter("models.yaml", with("exporter", "named"))
	const chat = "metadata: {name: chat}\nspec:\n  parentRefs: [{name: gw}]\n" // otherwise it matches any host
	s.up("models.yaml", with("pools", "rewrites", "by-model"), swap(chat, chat+"  hostnames: [chat.example]\n"))
	s.lists("/spill", "best, replaced", "gemma", "phi")
	s.lists("/far", "public, replaced", "qwen")
	want := []string{"best, replaced", "gemma", "llama", "phi", "public, replaced", "qwen"}
	s.Eventually("models.example lists models", func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base()+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "models.example"
		got, err := do(client(), req)
		if err != nil {
			return err
		}
		names, err := modelNames(got.body)
		return because(err == nil && slices.Equal(names, want), got.status, got.body, err)
	})
	explained := s.explain("http://models.example:"+fmt.Sprint(s.ports["gateway"])+"/v1/models", "-o", "json")
	if !strings.Contains(explained, `"served": true`) || !strings.Contains(explained, "200: the models of") {
		t.Errorf("explain: got\n%s\nwant that it is served, with 200: the models of a pool", explained)
	}
}

// Two clusters whose routes lead to each other list the models of both.
func TestModels_ListHasThoseBehindOtherClustersGateways(t *testing.T) {
	t.Parallel()
	here, west, east := newSite(t), newSite(t), newSite(t)
	here.closed("nowhere")
	here.server("here-1")
	for _, c := range []struct {
		*site
		name, model string
	}{{west, "west", "qwen"}, {east, "east", "phi"}} {
		c.ports["here"] = here.ports["gateway"]
		here.ports[c.name] = c.ports["gateway"]
		c.server(c.model, "--model", c.model)
		c.up("models.yaml", with(c.name))
	}
	here.up("models.yaml", with("gateways"))
	here.lists("/west", "qwen")
	here.lists("/both", "phi", "qwen")
	here.lists("/all", "llama", "phi", "qwen")
	here.lists("/ring", "llama", "qwen")
	here.lists("/gone", "llama")
	got := map[int]bool{}
	for range 40 { // only one of the two clusters has the model
		a, err := here.ask("/both", strings.Replace(question, "llama", "qwen", 1))
		if err != nil {
			t.Fatal(err)
		}
		got[a.status] = true
	}
	if len(got) != 2 || !got[http.StatusOK] || !got[http.StatusNotFound] {
		t.Errorf("statuses: got %v, want both 200 and 404", got)
	}
}

func TestModels_ListOfASubsetHasThatOfItsServersAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("small", "--model", "small")
	s.server("large", "--model", "large")
	s.up("models.yaml", with("subset"))
	s.lists("/one", "small")
	s.lists("/two", "large", "small")
	s.lists("", "large", "small")
}
