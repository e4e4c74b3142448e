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

// vllmBlock is the size of the engines' blocks (BLOCK of vllm.sh): whole blocks are cached.
const vllmBlock = 32

// total is the sum of an engine's series with a name.
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

// talk holds conversations, one turn of each after the other, and returns how many tokens of their
// prompts an engine has read before, in whole blocks.
func talk(s *site, conversations, turns int) (reusable float64, err error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	history := make([][]message, conversations)
	before := make([]float64, conversations)
	words := func() string {
		var b strings.Builder
		for range 120 {
			fmt.Fprintf(&b, "word%d ", rand.IntN(5000))
		}
		return b.String()
	}
	for range turns {
		for c := range history {
			history[c] = append(history[c], message{"user", words()})
			text, err := json.Marshal(history[c])
			if err != nil {
				return 0, err
			}
			got, err := s.post(s.url("/"), fmt.Sprintf(`{"model":"tiny","max_tokens":4,"ignore_eos":true,"messages":%s}`, text))
			if err != nil || got.status != http.StatusOK {
				return 0, fmt.Errorf("%d %s %w", got.status, got.body, err)
			}
			reusable += float64(int(before[c]) / vllmBlock * vllmBlock)
			before[c], _ = field(got.body, "usage", "prompt_tokens").(float64)
			history[c] = append(history[c], message{"assistant", "an answer"})
		}
	}
	return reusable, nil
}

// engineHits compares what engines count as cached with what could be, and with what the picker
// predicted by their KV events. The engines have a history, which only their replays have.
func engineHits(t *testing.T, s *site, engines ...*engine) {
	for i, e := range engines {
		body := fmt.Sprintf(`{"model":"tiny","max_tokens":1,"prompt":%q}`, long(90+i))
		if got, err := s.post(e.url("/v1/completions"), body); err != nil || got.status != http.StatusOK {
			t.Fatal(got.status, got.body, err)
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
	// a slow machine renders some prompts too late
	s.Eventually("engines have what can be reused, as predicted", func() error {
		hit, cached := hits(), predicted()
		reusable, err := talk(s, 3, 4)
		if err != nil {
			return err
		}
		hit, cached = hits()-hit, predicted()-cached
		t.Logf("reusable %.0f tokens, cached %.0f by the engines and %.0f by the picker", reusable, hit, cached)
		if hit < 0.9*reusable || cached < 0.9*hit || cached > 1.1*hit {
			return fmt.Errorf("of %.0f tokens that can be reused %.0f are, and the picker predicted %.0f", reusable, hit, cached)
		}
		return nil
	})
	if states("reported") != all {
		t.Errorf("after traffic: %s", s.explain(s.url("/")))
	}
}
