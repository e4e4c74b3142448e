package attacks

import (
	"strings"
	"sync"
	"testing"
)

const hashed = `apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec: {targetRef: {name: chat}, picker: {strategy: chwbl}}
`

// With a strategy that reads the body, time and memory are proportional to a hostile body's size. A
// body that is not JSON is answered 400.
func TestCHWBL_HostileBodiesAreAnswered400(t *testing.T) {
	s := start(t, map[string]string{"policy.yaml": hashed})
	s.Eventually("bodies are hashed", func() error {
		if err := s.ask("POST", "/v1/chat/completions", "{"); err == nil ||
			!strings.Contains(err.Error(), "invalid_body") {
			return errAnswered
		}
		return nil
	})
	traffic := s.traffic()
	before := s.rss(s.penstock)
	const size = 8 << 20
	deep := strings.Repeat("[", size/2)
	for name, body := range map[string]string{
		"brackets":      deep,
		"deep":          deep + strings.Repeat("]", size/2),
		"objects":       strings.Repeat(`{"a":`, size/5),
		"open string":   `{"messages":[{"role":"user","content":"` + strings.Repeat(`\\`, size/2),
		"open messages": `{"messages":[` + strings.Repeat(`{"role":"system","content":"x"},`, size/32),
		"bytes":         strings.Repeat("\xff", size),
	} {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := s.ask("POST", "/v1/chat/completions", body); err == nil ||
					!strings.Contains(err.Error(), "400") || !strings.Contains(err.Error(), `"code":"invalid_body"`) {
					t.Errorf("%s: got %v, want 400 invalid_body", name, err)
				}
			})
		}
		all.Wait()
	}
	for name, body := range map[string]string{
		"escapes": `{"messages":[{"role":"user","content":"` + strings.Repeat(`\"\u0061`, size/8) + `"}]}`,
		"parts":   `{"messages":[{"role":"user","content":[` + strings.Repeat(`{"text":"x"},`, size/13) + `{}]}]}`,
		"systems": `{"messages":[` + strings.Repeat(`{"role":"system","content":"x"},`, size/32) + `{}]}`,
	} {
		if err := s.ask("POST", "/v1/chat/completions", body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := s.rss(s.penstock); after > before+320 { // Penstock holds at most 256 MiB of bodies
		t.Errorf("resident memory grew from %.0f to %.0f MiB, want at most %.0f", before, after, before+320)
	}
	traffic.end()
}
