package modelserver

import (
	"testing"
	"testing/synctest"
	"time"
)

// begun starts a request with a prompt and an answer. The returned func waits until the answer has
// a number of tokens, and returns the time.
func begun(t *testing.T, s *Server, prompt, answer int) func(tokens int) time.Duration {
	t.Helper()
	began := time.Now()
	first := make(chan running, 1)
	go func() {
		run, err := s.enter(t.Context(), "", "", make([]uint32, prompt), answer)
		if err != nil {
			t.Error(err)
		}
		first <- run
	}()
	synctest.Wait()
	var run *running
	return func(tokens int) time.Duration {
		t.Helper()
		if run == nil {
			got := <-first
			run = &got
		}
		if err := run.await(t.Context(), 1, tokens); err != nil {
			t.Error(err)
		}
		if tokens == answer {
			run.leave()
		}
		return time.Since(began)
	}
}

// Reading a prompt, in chunks, delays the other answers.
func TestSteps_PromptsHoldUpAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Model: "base", StepTime: 20 * time.Millisecond, StepTimePerSequence: time.Millisecond,
			PrefillRate: 10_000, MaxBatchedTokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		short := begun(t, s, 10, 100)
		if at := short(1); at != 21*time.Millisecond {
			t.Errorf("the first token of a short prompt comes after %s, want %s", at, 21*time.Millisecond)
		}
		if at := short(11); at != 231*time.Millisecond {
			t.Errorf("ten more after %s, want %s", at, 231*time.Millisecond)
		}
		long := begun(t, s, 2500, 2)
		// After the current step, two steps of 1,000 tokens and one of 500 take 102 + 102 + 52 ms.
		if at := short(15); at != (231+21+102+102+52)*time.Millisecond {
			t.Errorf("four more, beside a long prompt, after %s, want %s",
				at, (231+21+102+102+52)*time.Millisecond)
		}
		if at := long(1); at != (21+102+102+52)*time.Millisecond {
			t.Errorf("the first token of the long prompt comes after %s, want %s",
				at, (21+102+102+52)*time.Millisecond)
		}
		if at := long(2); at != (21+102+102+52+22)*time.Millisecond {
			t.Errorf("its second one after %s, want %s", at, (21+102+102+52+22)*time.Millisecond)
		}
		if at := short(100); at != (231+21+102+102+52+22+84*21)*time.Millisecond {
			t.Errorf("the short one ends after %s, want %s",
				at, (231+21+102+102+52+22+84*21)*time.Millisecond)
		}
		if load := s.engine.load(); load.running != 0 || load.kvCache != 0 || s.prefillTokens.Load() != 2510 {
			t.Errorf("afterwards: %+v, %d tokens, want running 0, kvCache 0, 2510", load, s.prefillTokens.Load())
		}
		if took := time.Duration(s.prefillTime.Load()); took != (21+102+102+52)*time.Millisecond {
			t.Errorf("reading prompts took %s, want %s",
				took, (21+102+102+52)*time.Millisecond) // the long prompt waited 21 ms for the step
		}
	})
}

// If a step's tokens are used up, further prompts wait for the next step, and count as waiting.
func TestSteps_PromptsWaitForAStepWithRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Model: "base", StepTime: 20 * time.Millisecond, PrefillRate: 10_000,
			MaxBatchedTokens: 1000})
		if err != nil {
			t.Fatal(err)
		}
		first, second := begun(t, s, 1500, 1), begun(t, s, 100, 1)
		if load := s.engine.load(); load.running != 1 || load.waiting != 1 {
			t.Errorf("%+v, want running 1 and waiting 1", load)
		}
		a, b := first(1), second(1)
		if max(a, b) != 160*time.Millisecond || min(a, b) < 100*time.Millisecond {
			t.Errorf("first tokens after %s and %s, want the later after 160ms, the other after at least 100ms", a, b)
		}
	})
}

func TestSteps_ConflictingConfigIsAnError(t *testing.T) {
	for name, cfg := range map[string]Config{
		"a latency of its own":      {StepTime: time.Millisecond, InterTokenLatency: time.Millisecond},
		"a limit of prompts":        {StepTime: time.Millisecond, MaxPrefills: 1},
		"a time per sequence alone": {StepTimePerSequence: time.Millisecond},
	} {
		cfg.Model = "base"
		if _, err := New(cfg); err == nil {
			t.Errorf("%s was accepted, want an error", name)
		}
	}
}
