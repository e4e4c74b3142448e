package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// explain --why shows where a past request went, what the pick compared, and each stage that it
// passed, with its time and what it decided.
func TestWhy_ShowsTheStagesOfAPastRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-1")
	s.server("pod-2")
	s.up("why.yaml")
	got, err := s.ask("/", question)
	if err != nil || got.status != http.StatusOK {
		t.Fatalf("%d %v", got.status, err)
	}
	address := fmt.Sprint("127.0.0.1:", s.ports[got.by()])
	var text string
	s.Eventually("the request's end is known", func() error {
		if text = s.explain("--why", got.header.Get("x-request-id")); !strings.Contains(text, "served by "+address) {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
	for _, want := range []string{
		`stages +admit +\d+\.\d{3} ms\n`,
		`read +\d+\.\d{3} ms  ` + fmt.Sprint(len(question)) + ` bytes of the body\n`,
		`find +\d+\.\d{3} ms  pool default/chat, strategy load\n`,
		`rank +\d+\.\d{3} ms  2 candidates\n`,
		`lease +\d+\.\d{3} ms  \w+\.\w+\n`,
		`answer +\d+\.\d{3} ms  ` + regexp.QuoteMeta(address),
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
