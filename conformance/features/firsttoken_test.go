package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// prompt is a chat completion with a prompt that no server has cached.
func (s *site) prompt(words int, stream bool) string {
	s.prompts++
	text := strings.Repeat(fmt.Sprintf("word%d ", s.prompts), words)
	return fmt.Sprintf(
		`{"model": "llama", "stream": %t, "max_tokens": 2, "messages": [{"role": "user", "content": %q}]}`, stream,
		text)
}

// Like engines, two servers send the headers of a stream at once. The picker derives their rates of
// reading prompts from the times of first tokens.
func TestFirstToken_FastServerGetsThePrompts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("fast", "--prefill-rate", "8000")
	s.server("slow", "--prefill-rate", "1000")
	s.up("firsttoken.yaml")
	s.Eventually("12 prompts in a row go to the fast server", func() error {
		for i := range 12 {
			got, err := s.ask("/", s.prompt(600, true))
			if err != nil || got.status != http.StatusOK {
				t.Fatalf("%d %s %v, want %d", got.status, got.body, err, http.StatusOK)
			}
			if got.by() != "fast" {
				return fmt.Errorf(`request %d went to %q, want "fast"`, i+1, got.by())
			}
		}
		return nil
	})
}

var outcomes = regexp.MustCompile(
	`ended after (\d+\.\d+) s.* headers after (\d+\.\d+) s, first byte after (\d+\.\d+) s`)

// For a stream, the server reads the prompt between headers and first byte. Otherwise both arrive
// at the end.
func TestFirstToken_ExplainHasItBesideTheHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const read = 0.3 // seconds that a server reads the prompt
	s.server("fast", "--prefill-rate", "1000")
	s.server("slow", "--prefill-rate", "1000")
	s.up("firsttoken.yaml")
	for _, stream := range []bool{true, false} {
		s.Eventually(fmt.Sprintf("stream %t: the times are right", stream), func() error {
			got, err := s.ask("/", s.prompt(300, stream))
			if err != nil || got.status != http.StatusOK {
				t.Fatalf("%d %s %v, want %d", got.status, got.body, err, http.StatusOK)
			}
			var times [3]float64
			text := ""
			s.Eventually("the request's end is known", func() error {
				text = s.explain("--why", got.header.Get("x-request-id"))
				found := outcomes.FindStringSubmatch(text)
				if found == nil {
					return fmt.Errorf("explain --why: got\n%s\nwant the outcome's times", text)
				}
				for i := range times {
					times[i], _ = strconv.ParseFloat(found[i+1], 64)
				}
				return nil
			})
			end, headers, first := times[0], times[1], times[2]
			if first < read || end < first || stream == (headers >= read) {
				return fmt.Errorf("explain --why: got\n%s\nwant the first token after %v, then the end", text,
					read) // other processes may have used the CPU
			}
			return nil
		})
	}
}
