package features

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// x-penstock-reason states why Penstock answered instead of a server. The gateway removes a
// server's value in any pool, also behind an internal listener. A picker's value arrives.
func TestReason_PenstockAloneWritesIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	forger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-penstock-reason", "forged")
		w.Header().Set("x-served-by", "forger")
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(forger.Close)
	s.ports["forger"] = forger.Listener.Addr().(*net.TCPAddr).Port
	s.up("reason.yaml")
	for _, path := range []string{"/", "/service", "/plain", "/closed", "/spills", "/behind"} {
		s.Eventually(path+" is served without a reason", func() error {
			got, err := s.ask(path, question)
			if reason := got.header.Get("x-penstock-reason"); err != nil || got.by() != "forger" || reason != "" {
				return fmt.Errorf("got %d by %q with reason %q, %w, want forger and no reason", got.status, got.by(),
					reason, err)
			}
			return nil
		})
	}
	for _, path := range []string{"/none", "/nowhere"} {
		s.Eventually(path+" is answered with a reason", func() error {
			got, err := s.ask(path, question)
			if reason := got.header.Get("x-penstock-reason"); err != nil || reason != "no_endpoints" {
				return fmt.Errorf(`got %d with reason %q, %w, want "no_endpoints"`, got.status, reason, err)
			}
			return nil
		})
	}
}
