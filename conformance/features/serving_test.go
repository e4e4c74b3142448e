package features

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

const unserved = "no request can be served"

// counts waits until status, explain and metrics report how many of the two servers of pool chat
// serve.
func (s *site) counts(serving int) {
	s.Helper()
	s.Eventually(fmt.Sprint(serving, " servers serve"), func() error {
		text, err := s.command("status")
		row := ""
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "default/chat" {
				row = fields[2]
			}
		}
		return because(err == nil && row == fmt.Sprintf("%d/2", serving), text, err)
	})
	if n := s.series(`penstock_picker_serving_endpoints{pool="default/chat"}`); n != float64(serving) {
		s.Errorf("%v endpoints are counted, want %d", n, serving)
	}
	cmd := exec.CommandContext(s.Context(), binary, "explain", s.url("/"), "-X", "POST", "-f", s.Files, "--state",
		s.state)
	text, err := cmd.Output()
	if want := fmt.Sprintf("%d of 2 serve", serving); !strings.Contains(string(text), want) ||
		(err == nil) != (serving > 0) {
		s.Errorf("explain: %v, want %q in\n%s", err, want, text)
	}
}

func (s *site) lines(text string) int { return strings.Count(s.output(), text) }

// broken answers 503 to each request while it is down.
type broken struct {
	mortal
	down   atomic.Bool
	health bool // GET /health answers 200 all the same
}

func (b *broken) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.down.Load() && (!b.health || r.URL.Path != "/health") {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	b.mortal.ServeHTTP(w, r)
}

// A pool without a serving server has a Warning until a server recovers. penstock up prints it
// once. Killed servers are detected without requests.
func TestServing_DeadPoolHasAWarning(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			a, b := s.server("a"), s.server("b")
			s.up("serving.yaml")
			s.counts(2)
			if signal == syscall.SIGSTOP {
				s.answers("/", http.StatusOK)
			}
			a.Signal(signal)
			s.counts(1)
			if n := s.lines(unserved); n > 0 {
				t.Errorf("one server serves: got\n%s\nwant no Warning that none does", s.output())
			}
			b.Signal(signal)
			s.logged("InferencePool default/chat spec.selector: " + unserved)
			s.counts(0)
			s.reports("NoServer: " + unserved)
			for _, name := range []string{"a", "b"} {
				if text := s.status(); signal == syscall.SIGKILL &&
					!strings.Contains(text, s.address(name)+" (connection refused)") {
					t.Errorf("status: got\n%s\nwant connection refused for server %s", text, name)
				}
			}
			if signal == syscall.SIGKILL {
				s.sim("a", "--listen", s.address("a"))
			} else {
				a.Signal(syscall.SIGCONT)
			}
			s.counts(1)
			b.Signal(syscall.SIGCONT) // otherwise requests may wait at b
			s.answers("/", http.StatusOK)
			s.logged("all errors and warnings are resolved")
			if n := s.lines(unserved); n != 1 {
				t.Errorf("the Warning is printed %d times, want once:\n%s", n, s.output())
			}
		})
	}
}

// penstock up prints a line when one of several servers stops serving, and when it serves again.
func TestServing_EachServerThatStopsIsALine(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.server("a")
	s.server("b")
	s.up("serving.yaml")
	s.counts(2)
	a.Signal(syscall.SIGKILL)
	stops := "pool default/chat: " + s.address("a") + " does not serve: connection refused; 1 of 2 servers serve\n"
	s.logged(stops)
	s.counts(1)
	cause := s.address("a") + " of pool default/chat does not serve: connection refused since 20"
	if text := s.status(); !strings.Contains(text, cause) || strings.Contains(text, "is suspect") {
		t.Errorf("status: got\n%s\nwant %q, and no suspect", text, cause)
	}
	s.sim("a", "--listen", s.address("a"))
	again := "pool default/chat: " + s.address("a") + " serves again; 2 of 2 servers serve\n"
	s.logged(again)
	if s.lines(stops) != 1 || s.lines(again) != 1 || s.lines(unserved) != 0 {
		t.Errorf("it printed\n%s\nwant %q and %q once each, and not that no server serves", s.output(), stops, again)
	}
}

// A server that answers each request with 503 does not serve, whatever GET /health returns.
func TestServing_PoolThatAnswers503HasAWarning(t *testing.T) {
	t.Parallel()
	for _, health := range []bool{false, true} {
		t.Run(fmt.Sprint("healthy ", health), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			servers := []*broken{{mortal: mortal{name: "a"}, health: health},
				{mortal: mortal{name: "b"}, health: health}}
			for _, b := range servers {
				s.backend(b.name, b)
			}
			s.up("serving.yaml")
			s.answers("/", http.StatusOK)
			for _, b := range servers {
				b.down.Store(true)
			}
			s.Eventually("penstock up prints a Warning", func() error {
				got, err := s.ask("/", question)
				return errors.Join(err,
					because(s.lines("default/chat spec.selector: "+unserved) == 1, got.status, s.output()))
			})
			s.counts(0)
			for _, b := range servers {
				b.down.Store(false)
			}
			s.answers("/", http.StatusOK)
			s.logged("all errors and warnings are resolved")
		})
	}
}

// The pool has a Warning although its spill target serves.
func TestServing_SpillOfADeadPoolServes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("a")
	s.closed("b")
	s.server("spare")
	s.up("serving.yaml", with("spill"))
	s.logged("InferencePool default/chat spec.selector: " + unserved)
	if text := s.explain(s.url("/"), "-X", "POST", "-o", "json"); !strings.Contains(text, `"served": true`) {
		t.Errorf(`explain: got %s, want "served": true`, text)
	}
}

// Penstock detects dead gateways of another cluster without requests.
func TestServing_DeadGatewaysHaveAWarning(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"west", "east", "nowhere"} {
		s.closed(name)
	}
	s.server("here-1")
	s.up("models.yaml", with("gateways"))
	s.logged("InferencePoolImport default/gone status.clusters: cluster c0, 50% or less?: " + unserved)
}

// Penstock also probes servers that another picker picks, in this or an exporting cluster.
func TestServing_DeadServersOfExternalPickersHaveAWarning(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.closed("pod-1")
	s.closed("pod-2")
	s.ports["epp"], _ = serving(t, "127.0.0.1:0", &referencePicker{pick: s.address("pod-1")})
	s.up("externalpicker.yaml", with("two", "external", "slice", "import"))
	s.logged("InferencePool default/chat spec.selector: " + unserved + ": none of 2 servers serves")
	s.logged("InferencePoolImport default/far status.clusters: cluster declared: " + unserved)
}
