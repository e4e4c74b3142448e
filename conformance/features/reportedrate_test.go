package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
)

// reads matches how explain and status show the rate of a server by its own series.
var reads = regexp.MustCompile(`reads (\d+) tokens/s \(reported\)`)

// A server's own series show how fast it reads prompts, also without streams: explain --why and
// status have the rate and where it is from.
func TestReportedRate_IsShownWithItsSource(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("fast", "--prefill-rate", "2000")
	s.server("slow", "--prefill-rate", "2000")
	s.up("firsttoken.yaml")
	// A token of Penstock is four bytes; a token of this server is a word, with its space.
	const least, most = 2000 * 5. / 4 * 0.7, 2000 * 8. / 4 * 1.3
	check := func(text string) error {
		found := reads.FindStringSubmatch(text)
		if found == nil {
			return fmt.Errorf("no rate in\n%s", text)
		}
		if rate, _ := strconv.ParseFloat(found[1], 64); rate < least || rate > most {
			return fmt.Errorf("%.0f tokens/s, want %.0f to %.0f", rate, least, most)
		}
		return nil
	}
	s.Eventually("the rate is reported", func() error {
		got, err := s.ask("/", s.prompt(500, false))
		if err != nil || got.status != http.StatusOK {
			t.Fatalf("%d %s %v", got.status, got.body, err)
		}
		return check(s.explain("--why", got.header.Get("x-request-id")))
	})
	s.Eventually("status has the rate", func() error { return check(s.status()) })
}
