package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// names waits until status, explain and metrics report a server as suspect for this reason.
func (s *site) names(server, kind, reason string, meanwhile func()) {
	s.Helper()
	s.Eventually("a suspect server is shown", func() error {
		meanwhile()
		status, explained := s.status(), s.explain(s.url("/"))
		series := fmt.Sprintf("penstock_picker_suspect_endpoints{kind=%q,pool=%q}", kind, "default/chat")
		verb := map[string]string{"stale": "is suspect", "failing": "does not serve"}[kind]
		begin := fmt.Sprintf("Server %s of pool default/chat ", s.address(server))
		switch line := begin + verb + ": " + reason; {
		case !strings.Contains(status, line):
			return fmt.Errorf("status: got\n%s\nwant %q", status, line)
		case strings.Count(status, begin) != 1:
			return fmt.Errorf("status: got\n%s\nwant %q once", status, begin)
		case !strings.Contains(explained, "suspect: "):
			return fmt.Errorf("explain: got\n%s\nwant suspect: and a reason", explained)
		case s.series(series) != 1:
			return fmt.Errorf("%s: got %g, want 1", series, s.series(series))
		}
		return nil
	})
}

// A server whose requests fail, and a server without a metrics page that has served nothing, get
// only single requests.
func TestSuspect_ReasonIsShown(t *testing.T) {
	t.Parallel()
	t.Run("failing", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		fails := s.mortal("hangs")
		fails.fail(func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) })
		s.mortal("works")
		s.up("silent.yaml")
		s.answers("/", http.StatusOK)
		s.names("hangs", "failing", "its requests fail, the last one at ", func() { _, _ = s.ask("/", question) })
		if text := s.status(); !strings.Contains(text, "(status 502)") {
			t.Errorf("status: got\n%s\nwant (status 502)", text)
		}
	})
	t.Run("stale", func(t *testing.T) {
		t.Parallel()
		s := newSite(t)
		hangs := &hanging{name: "hangs"}
		hangs.hangs.Store(true)
		s.backend("hangs", hangs)
		s.backend("works", &hanging{name: "works", page: true})
		s.up("silent.yaml")
		s.names("hangs", "stale", "its metrics page is stale (", func() {
			ctx, cancel := context.WithTimeout(s.Context(), 50*time.Millisecond)
			defer cancel()
			if req, err := request(ctx, s.url("/"), question); err == nil {
				_, _ = do(client(), req)
			}
		})
	})
}
