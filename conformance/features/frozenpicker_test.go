package features

import (
	"net/http"
	"syscall"
	"testing"
	"time"
)

// An external picker that is frozen, so that its connections stay open, costs a request about 3 s.
// Then the pool's failure mode counts for all that follow: any endpoint, or 503. The body of the
// request that met the freeze is with the picker, so that one is answered 503 in both modes.
func TestExternalPicker_FrozenOneCostsThreeSeconds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edits  []edit
		status int
	}{
		"fails closed": {[]edit{with("two", "external", "slice")}, http.StatusServiceUnavailable},
		"fails open":   {[]edit{with("two", "external", "slice"), swap("FailClose", "FailOpen")}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server("pod-1")
			s.server("pod-2")
			picker := s.alone("epp", "externalpicker.yaml", with("own", "picked"), "--pool-name", "chat")
			s.up("externalpicker.yaml", tt.edits...)
			s.allServedBy("/", "pod-2", 5)
			picker.penstock.Signal(syscall.SIGSTOP)
			defer picker.penstock.Signal(syscall.SIGCONT)
			for i := range 5 {
				began := time.Now()
				got, err := s.ask("/", question)
				took := time.Since(began)
				t.Logf("request %d: %d after %v", i, got.status, took)
				met := i < 2 // the process stops, and one request meets that
				if err != nil || got.status != tt.status && !met || took > 6*time.Second {
					t.Errorf("request %d: %d after %v, %v %s", i, got.status, took, err, got.body)
				}
			}
			picker.penstock.Signal(syscall.SIGCONT)
			s.goes("/", "pod-2", 5)
		})
	}
}
