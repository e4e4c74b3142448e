//go:build engines

package features

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The medians of rateRuns runs are compared, each with ratePrompts prompts.
const rateRuns, ratePrompts = 5, 8

// maxNoise is the difference of two equal runs, in percent, above which rate_error_vllm has no
// limit.
const maxNoise = 10

var promptLength = regexp.MustCompile(`a prompt of ([\d,]+) tokens`)

// direct sends prompts to an engine in sequence, and returns how many tokens it reads in a second.
// The rate is a regression through the origin, because the tiny model's time for a token is
// proportional to the prompt's length, and the prompts are about equally long.
func (e *engine) direct(s *site, first int) (rate float64, err error) {
	var squares, products float64
	for i := range ratePrompts {
		body := fmt.Sprintf(
			`{"model":"tiny","max_tokens":1,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":%q}]}`, long(first+i))
		_, events, err := timed(s, e.url("/v1/chat/completions"), body)
		if err != nil {
			return 0, err
		}
		if len(events) < 2 {
			return 0, fmt.Errorf("got the events %v, want at least 2", events)
		}
		tokens, _ := field(events[len(events)-2].data, "usage", "prompt_tokens").(float64)
		squares, products = squares+tokens*tokens, products+tokens*events[0].at.Seconds()
	}
	return squares / products, nil
}

// vllmRates compares the picker's rates, which come from the engines' metrics, with the rates of
// direct requests. It prints rate_error_vllm.
func vllmRates(t *testing.T, s *site, engines ...*engine) {
	next := int(time.Now().UnixMicro() % 1e6)
	var errors, noise []float64
	for run := range rateRuns {
		var before, again float64
		for _, e := range engines {
			for _, to := range []*float64{&before, &again} {
				rate, err := e.direct(s, next)
				if err != nil {
					t.Fatal(err)
				}
				next += ratePrompts
				*to += rate / float64(len(engines))
			}
		}
		counted, tokens := 0.0, 0.0
		for range ratePrompts * len(engines) {
			got, err := s.ask("/",
				fmt.Sprintf(`{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, long(next)))
			next++
			if err != nil {
				t.Fatal(err)
			}
			n, _ := field(got.body, "usage", "prompt_tokens").(float64)
			found := promptLength.FindStringSubmatch(s.explain("--why", got.header.Get("x-request-id")))
			if found == nil || n == 0 {
				t.Fatalf("prompt: got no length from explain or 0 tokens, want both: %s", got.body)
			}
			own, _ := strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64)
			counted, tokens = counted+own, tokens+n
		}
		var sum float64
		s.Eventually("both rates are reported", func() error {
			found := reads.FindAllStringSubmatch(s.status(), -1)
			if sum = 0; len(found) != len(engines) {
				return fmt.Errorf("rates: got %v, want %d", found, len(engines))
			}
			for _, f := range found {
				rate, _ := strconv.ParseFloat(f[1], 64)
				sum += rate / float64(len(engines))
			}
			return nil
		})
		learned, actual := sum*tokens/counted, (before+again)/2
		errors = append(errors, 100*math.Abs(learned-actual)/actual)
		noise = append(noise, 100*math.Abs(again-before)/before)
		t.Logf("run %d: learned %.0f of the engine's tokens a second, direct %.0f and %.0f", run, learned, before,
			again)
	}
	slices.Sort(errors)
	slices.Sort(noise)
	limit := 20.
	if noise[rateRuns/2] > maxNoise {
		limit = math.NaN()
	}
	figure("rate_error_vllm.noise", "%", noise[rateRuns/2], math.NaN(),
		"The same of direct requests against direct requests.")
	figure("rate_error_vllm", "%", errors[rateRuns/2], limit,
		"The rate at which a real vLLM reads prompts, by its series, against a regression over direct requests just "+
			"before: the median of five runs.")
	if errors[rateRuns/2] > limit {
		t.Errorf("the learned rate is wrong by %.1f %%, noise %.1f %%, want at most %.1f",
			errors[rateRuns/2], noise[rateRuns/2], limit)
	}
}
