//go:build engines

package features

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// vllmBlock is the engines' block size in tokens (BLOCK of vllm.sh). Only whole blocks are cached.
const vllmBlock = 32

func (e *engine) total(s *site, name string) (sum float64) {
	s.Helper()
	got, err := s.get(e.url("/metrics"))
	if err != nil || got.status != http.StatusOK {
		s.Fatal(got.status, err)
	}
	for line := range strings.Lines(got.body) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(series, name+"{") {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// usage is a prompt's number of tokens, and how many of them the engine had cached.
type usage struct{ prompt, cached float64 }

func chat(s *site, url string, messages []message) (u usage, err error) {
	text, err := json.Marshal(messages)
	if err != nil {
		return u, err
	}
	got, err := s.post(url, fmt.Sprintf(`{"model":"tiny","max_tokens":4,"ignore_eos":true,"messages":%s}`, text))
	if err != nil || got.status != http.StatusOK {
		return u, fmt.Errorf("got %d %s %w, want 200", got.status, got.body, err)
	}
	u.prompt, _ = field(got.body, "usage", "prompt_tokens").(float64)
	u.cached, _ = field(got.body, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	return u, nil
}

func words() string {
	var b strings.Builder
	for range 120 {
		fmt.Fprintf(&b, "word%d ", rand.IntN(5000))
	}
	return b.String()
}

// talk holds conversations, whose turns alternate. It returns how many prompt tokens an engine has
// read before, in whole blocks.
func talk(s *site, conversations, turns int) (reusable float64, err error) {
	history := make([][]message, conversations)
	before := make([]float64, conversations)
	for range turns {
		for c := range history {
			history[c] = append(history[c], message{"user", words()})
			used, err := chat(s, s.url("/"), history[c])
			if err != nil {
				return 0, err
			}
			reusable += float64(int(before[c]) / vllmBlock * vllmBlock)
			before[c] = used.prompt
			history[c] = append(history[c], message{"assistant", "an answer"})
		}
	}
	return reusable, nil
}

// engineHits compares the engines' cached tokens with the possible number, and with the picker's
// prediction from KV events. The picker gets earlier events only by replay.
func engineHits(t *testing.T, s *site, engines ...*engine) {
	for i, e := range engines {
		body := fmt.Sprintf(`{"model":"tiny","max_tokens":1,"prompt":%q}`, long(90+i))
		if got, err := s.post(e.url("/v1/completions"), body); err != nil || got.status != http.StatusOK {
			t.Fatalf("got %d %s %v, want 200", got.status, got.body, err)
		}
	}
	states := func(state string) float64 {
		return s.series(fmt.Sprintf(`penstock_picker_kv_event_endpoints{pool="default/chat",state=%q}`, state))
	}
	all := float64(len(engines))
	s.Eventually("each server reports all that it has cached", func() error {
		return because(states("reported") == all, s.explain(s.url("/")))
	})
	hits := func() (sum float64) {
		for _, e := range engines {
			sum += e.total(s, "vllm:prefix_cache_hits_total")
		}
		return sum
	}
	predicted := func() float64 {
		return s.series(`penstock_picker_model_prompt_tokens_total{model="tiny",pool="default/chat",type="cached"}`)
	}
	served := func() float64 {
		return s.series(`penstock_picker_model_requests_total{model="tiny",outcome="served",pool="default/chat"}`)
	}
	const conversations, turns = 3, 4
	// Polls, because a slow machine tokenizes some prompts too late.
	s.Eventually("engines have what can be reused, as predicted", func() error {
		hit, cached, ended := hits(), predicted(), served()
		reusable, err := talk(s, conversations, turns)
		if err != nil {
			return err
		}
		s.Eventually("the ends of all are counted", func() error {
			n := served() - ended
			return because(n >= conversations*turns, n, " have ended")
		})
		hit, cached = hits()-hit, predicted()-cached
		t.Logf("reusable %.0f tokens, cached %.0f by the engines and %.0f by the picker", reusable, hit, cached)
		if hit < 0.9*reusable || cached < 0.9*hit || cached > 1.1*hit {
			return fmt.Errorf("of %.0f tokens that can be reused %.0f are, and the picker predicted %.0f, want at "+
				"least 90 %%, and 10 %% around", reusable, hit, cached)
		}
		return nil
	})
	// Without events, a prompt goes to the right one of two servers by chance, so 12 in a row are
	// proof.
	s.Eventually("requests follow prompts that engines got from another client", func() error {
		for i := range 12 {
			document, e := words(), engines[rand.IntN(len(engines))]
			if _, err := chat(s, e.url("/v1/chat/completions"), []message{{"user", document + "one"}}); err != nil {
				return err
			}
			usage, err := chat(s, s.url("/"), []message{{"user", document + "another"}})
			if err != nil || usage.cached < 0.8*usage.prompt {
				return fmt.Errorf("prompt %d of %.0f tokens: got %.0f cached, %w, want at least 80 %%", i, usage.prompt,
					usage.cached, err)
			}
		}
		return nil
	})
	if states("reported") != all {
		t.Errorf("states of events after traffic: got\n%s\nwant all %.0f reported", s.explain(s.url("/")), all)
	}
}
