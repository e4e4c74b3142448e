package features

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// The servers get their first prompts directly from a client. Only their events show the picker
// what they have cached.
func TestKVEvents_OfServersDecidePicks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ports["pods"], s.ports["events"] = s.Port(), s.Port()
	servers := []string{"127.0.0.2", "127.0.0.3"}
	at := func(host, port string) string { return fmt.Sprint(host, ":", s.ports[port]) }
	for _, host := range servers {
		s.sim(host, "--listen", at(host, "pods"), "--prefix-caching", "--kv-events", at(host, "events"))
	}
	s.up("kvevents.yaml")
	s.answers("/", http.StatusOK)
	body := func(prompt string) string {
		return fmt.Sprintf(`{"model": "llama", "max_tokens": 1, "messages": [{"role": "user", "content": %q}]}`, prompt)
	}
	number := 0
	// Without events, a prompt goes to the right one of two servers by chance, so 20 in a row are
	// proof.
	s.Eventually("requests follow what the servers have cached", func() error {
		for range 20 {
			number++
			server := servers[rand.IntN(2)]
			beginning := strings.Repeat(fmt.Sprintf("document-%d ", number), 1000)
			if got, err := s.post("http://"+at(server, "pods")+"/v1/chat/completions",
				body(beginning+"one")); err != nil ||
				got.status != http.StatusOK {
				return fmt.Errorf("got %d: %s %w, want 200", got.status, got.body, err)
			}
			if by := s.answered("/", body(beginning+"another")).by(); by != server {
				return fmt.Errorf("prompt %d was sent to %s, want %s, which has it cached", number, by, server)
			}
		}
		return nil
	})
	// On a slow machine, some prompts are not rendered in time.
	if n := s.series(`penstock_picker_renders_total{outcome="rendered"}`); n < 10 {
		t.Errorf("%g prompts were rendered for %d requests, want at least 10", n, number)
	}
}
