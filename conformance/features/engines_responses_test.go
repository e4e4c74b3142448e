//go:build engines

package features

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
)

// Two real vLLM servers keep responses in memory. Through a pool with responseAffinity, 20
// follow-ups are all answered 200, streamed or not. Without the field, some are answered 404.
func TestEngines_VLLMFollowUpsFindTheirResponse(t *testing.T) {
	t.Setenv("VLLM_ENABLE_RESPONSES_API_STORE", "1")
	s := newSite(t)
	a, b := s.engine("vllm", "a"), s.engine("vllm", "b")
	s.starts(a, b)
	s.up("engines.yaml", with("responses"))
	body := func(i int) map[string]any {
		return map[string]any{
			"model": "tiny", "input": fmt.Sprint("question ", i), "max_output_tokens": 4, "stream": i%2 == 1,
		}
	}
	s.Eventually("responses are created", func() error {
		_, _, err := s.created(body(0), "")
		return err
	})
	for i := range 20 {
		id, _, err := s.created(body(i), "")
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := s.created(body(i), id)
		if err != nil {
			t.Errorf("follow-up %d: %v\n%s", i, err, s.explain("--last", "1"))
			continue
		}
		got, err := s.get(s.base() + "/v1/responses/" + next)
		if err != nil || got.status != http.StatusOK {
			t.Errorf("response %d: %d %s %v, want %d", i, got.status, got.body, err, http.StatusOK)
		}
	}
	s.write("engines.yaml")
	s.Eventually("without the field a follow-up is answered 404", func() error {
		id, _, err := s.created(body(0), "")
		if err != nil {
			return err
		}
		failed := 0
		for i := range 20 {
			if _, _, err := s.created(body(i), id); err != nil {
				failed++
			}
		}
		if failed == 0 {
			return errors.New("all 20 are answered")
		}
		t.Logf("without the field %d of 20 follow-ups fail", failed)
		return nil
	})
}
