package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var reads = regexp.MustCompile(`reads (\d+) tokens/s \(reported\)`)

// A server's own metrics show how fast it reads prompts, even without streams.
func TestReportedRate_IsShownWithItsSource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("fast", "--prefill-rate", "2000")
	s.server("slow", "--prefill-rate", "2000")
	s.up("firsttoken.yaml")
	// Penstock assumes four bytes a token. This server counts a word with its space as one token.
	const least, most = 2000 * 5. / 4 * 0.7, 2000 * 8. / 4 * 1.3
	check := func(text string) error {
		found := reads.FindStringSubmatch(text)
		if found == nil {
			return fmt.Errorf("got\n%s\nwant a rate", text)
		}
		if rate, _ := strconv.ParseFloat(found[1], 64); rate < least || rate > most {
			return fmt.Errorf("%.0f tokens/s, want %.0f to %.0f", rate, least, most)
		}
		return nil
	}
	s.Eventually("the rate is reported", func() error {
		got, err := s.ask("/", s.prompt(1000, false))
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("%d %s %v, want %d", got.status, got.body, err, http.StatusOK)
		}
		return check(s.explain("--why", got.header.Get("x-request-id")))
	})
	s.Eventually("status has the rate", func() error { return check(s.status()) })
}

// Answers without a stream, and streams of /v1/responses, have no visible first token. The servers'
// own metrics show which server is faster.
func TestReportedRate_FasterServerGetsPromptsWhoseFirstTokensAreNotSeen(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"/v1/chat/completions": false, "/v1/responses": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server("fast", "--prefill-rate", "8000", "--inter-token-latency", "5ms")
			s.server("slow", "--prefill-rate", "1000", "--inter-token-latency", "5ms")
			s.up("firsttoken.yaml")
			ask := func() string {
				body := strings.Replace(s.prompt(600, stream), `"max_tokens": 2`,
					`"max_tokens": 60, "max_output_tokens": 60`, 1)
				if stream {
					body = strings.Replace(body, `"messages"`, `"input"`, 1)
				}
				got, err := s.post(s.base()+name, body)
				if err != nil || got.status != http.StatusOK {
					t.Fatalf("%d %s %v, want %d", got.status, got.body, err, http.StatusOK)
				}
				return got.by()
			}
			s.Eventually("both rates are reported", func() error {
				ask()
				text := s.status()
				return because(len(reads.FindAllString(text, -1)) == 2, text)
			})
			slow := 0
			for range 20 {
				if ask() == "slow" {
					slow++
				}
			}
			if slow > 1 {
				t.Errorf("prompts at the slow server: got %d of 20, want at most 1:\n%s", slow, s.status())
			}
		})
	}
}
