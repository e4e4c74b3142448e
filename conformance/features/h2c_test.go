package features

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

var speaksH2C = swap("  targetPorts: [{number: 8000}]",
	"  targetPorts: [{number: 8000}]\n  appProtocol: kubernetes.io/h2c")

// Penstock probes a silent server that speaks only h2c by h2c, so that the server serves again.
func TestH2C_SilentServerServesAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	works, hangs := &hanging{name: "works", page: true}, &hanging{name: "hangs", page: true}
	s.h2c("works", works)
	s.h2c("hangs", hangs)
	s.up("silent.yaml", speaksH2C)
	both := func() {
		seen := map[string]bool{}
		s.Eventually("both servers serve", func() error {
			by, err := s.token(10 * time.Second)
			seen[by] = seen[by] || err == nil
			return errors.Join(err, because(seen["works"] && seen["hangs"], seen))
		})
	}
	for range 10 { // gives the picker the times to first tokens
		both()
	}
	if text := s.explain(s.url("/")); strings.Contains(text, "metrics page") {
		t.Errorf("explain: got\n%s\nwant no problem of a metrics page", text)
	}
	hangs.hangs.Store(true)
	s.Eventually("the server is silent", func() error {
		go func() { _, _ = s.token(time.Second) }() // half of these requests get no answer
		n := s.series(`penstock_picker_silent_endpoints{pool="default/chat"}`)
		return because(n == 1, fmt.Sprint(n, " silent endpoints"))
	})
	hangs.hangs.Store(false)
	both()
}

func TestH2C_ErrorOfDeadServerIsServedByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := &mortal{name: "a"}, &mortal{name: "b"}
	s.h2c("a", a)
	s.h2c("b", b)
	s.up("killed.yaml", speaksH2C)
	s.goes("/", "a", 1)
	s.goes("/", "b", 1)
	before := a.served.Load()
	a.fail(internal)
	a.health.Store(http.StatusServiceUnavailable)
	if got := s.outcomes("/", 10); got[http.StatusOK] != 10 || a.served.Load() == before {
		t.Errorf("got %v, %d by the server that died, want 10 times 200, at least 1 tried there", got,
			a.served.Load()-before)
	}
}
