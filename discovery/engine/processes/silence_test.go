package processes

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSilence_HungEngineIsNotReadyAndStartsAgain(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not show the CPU time of a process")
	}
	for _, c := range []struct {
		name    string
		restart int
	}{{"continues", 1 << 30}, {"restarts", 5}} {
		s := supervise(t, t.TempDir(), func(q *timings) {
			q.health, q.answer, q.hung, q.restart = 20*time.Millisecond, 100*time.Millisecond, 3, c.restart
		})
		p := serving(t, "ns/"+c.name+"/0")
		p.StopGrace = 50 * time.Millisecond
		s.Want([]Process{p})
		st := untilPhase(t, s, p.Name, Running)
		if err := syscall.Kill(st.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if c.restart > 1000 {
			hung := untilPhase(t, s, p.Name, Unresponsive)
			if hung.PID != st.PID || !strings.HasPrefix(hung.Reason, "no answer at /health for 300ms") {
				t.Errorf("state %+v", hung)
			}
			if err := syscall.Kill(st.PID, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			again := untilPhase(t, s, p.Name, Running)
			if again.PID != st.PID || again.Reason != "" || again.Restarts != 0 {
				t.Errorf("state %+v", again)
			}
			continue
		}
		next := until(t, s, p.Name, "another process", func(now State) bool {
			return now.Phase == Running && now.PID != st.PID
		})
		if next.Restarts != 1 || alive(st.PID) {
			t.Errorf("state %+v", next)
		}
	}
}

// A process with Keep is not ended, because no new one would start.
func TestSilence_KeptEngineIsNotEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not show the CPU time of a process")
	}
	s := supervise(t, t.TempDir(), func(q *timings) {
		q.health, q.answer, q.hung, q.restart = 20*time.Millisecond, 50*time.Millisecond, 2, 2
	})
	p := serving(t, "ns/a/0")
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Running)
	p.Keep = true
	s.Want([]Process{p})
	if err := syscall.Kill(st.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if hung := untilPhase(t, s, p.Name, Unresponsive); hung.PID != st.PID {
		t.Errorf("state %+v", hung)
	}
}

// A server under load answers late and uses CPU time, so it does not count as hung.
func TestSilence_BusyEngineIsNotHung(t *testing.T) {
	s, used := silence{}, time.Duration(0)
	cpu := func() (time.Duration, bool) { return used, true }
	for range 20 {
		s.next(false, cpu)
		used += time.Minute // much more than the time that passes
	}
	if s.checks != 1 {
		t.Errorf("a busy engine: %d checks", s.checks)
	}
	used = s.cpu
	s.next(false, cpu)
	s.next(false, cpu)
	if s.checks != 3 {
		t.Errorf("an idle engine: %d checks, want 3", s.checks)
	}
	s.next(true, cpu)
	if s != (silence{}) {
		t.Errorf("after an answer: %+v", s)
	}
	s.next(false, func() (time.Duration, bool) { return 0, false })
	if s.checks != 0 {
		t.Error("without a reading, an engine counts as hung")
	}
}

func TestSilence_OverloadedEngineAnswers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	if !answers(t.Context(), server.URL, time.Minute) {
		t.Error("503 is no answer")
	}
	server.Close()
	if answers(t.Context(), server.URL, time.Minute) {
		t.Error("a closed port answers")
	}
}
