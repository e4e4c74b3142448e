package processes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestEngines_StartServeAndStop(t *testing.T) {
	dir := t.TempDir()
	s := supervise(t, dir)
	gate := filepath.Join(t.TempDir(), "ready")
	p := serving(t, "ns/qwen/0", "READY="+gate)
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Starting)
	poll.Until(t, "it listens", func() bool { return strings.Contains(content(t, s.Log(p.Name)), "starts") })
	if st = stateOf(s, p.Name); st.Phase != Starting {
		t.Errorf("phase %v before the engine is ready", st.Phase)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st = untilPhase(t, s, p.Name, Running)
	if got, err := unix.Getsid(st.PID); err != nil || got != st.PID {
		t.Errorf("session %d of process %d: %v", got, st.PID, err)
	}
	if st.Hash != p.Hash() || st.Adopted || st.Restarts != 0 {
		t.Errorf("state %+v", st)
	}
	info, err := os.Stat(filepath.Join(dir, fileName(p.Name)+recordEnd))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("record: %v %v", info, err)
	}
	s.Want(nil)
	until(t, s, p.Name, "absent", func(st State) bool { return st.Phase == -1 })
	if alive(st.PID) {
		t.Error("the engine runs on")
	}
	if !strings.HasSuffix(content(t, s.Log(p.Name)), "helper ends\n") {
		t.Errorf("log: %q", content(t, s.Log(p.Name)))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+recordEnd)); len(left) != 0 {
		t.Errorf("records left: %v", left)
	}
}

// Consumers call Want after each signal. If the same set gave a signal, they would loop.
func TestEngines_WantOfTheSameSetGivesNoSignal(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "idle")
	set := []Process{p, {Name: "ns/rejected/0"}}
	s.Want(set)
	untilPhase(t, s, p.Name, Running)
	signalled := func() bool {
		select {
		case <-s.Changed():
			return true
		default:
			return false
		}
	}
	signalled() // drops the signal of earlier changes
	for range 3 {
		if s.Want(set); signalled() {
			t.Fatal("got a signal without a change")
		}
	}
	if s.Want(set[:1]); !signalled() {
		t.Error("a rejected process is gone: got no signal, want one")
	}
	if s.Want(set); !signalled() {
		t.Error("a process is rejected: got no signal, want one")
	}
}

func TestEngines_ChangedCommandRestartsAndInheritedVariablesDoNot(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "idle")
	s.Want([]Process{p})
	first := untilPhase(t, s, p.Name, Running)
	p.Inherited = append(p.Inherited, "TERM=other")
	p.StopGrace = time.Second
	s.Want([]Process{p})
	other := engine("ns/b/0", "idle")
	s.Want([]Process{p, other})
	untilPhase(t, s, other.Name, Running)
	if st := stateOf(s, p.Name); st.PID != first.PID {
		t.Errorf("process %d, want %d", st.PID, first.PID)
	}
	p.Env = append(p.Env, "SIZE=2")
	s.Want([]Process{p, other})
	until(t, s, p.Name, "another process runs", func(st State) bool {
		return st.Phase == Running && st.PID != first.PID
	})
	if alive(first.PID) {
		t.Error("the old process runs on")
	}
}

func TestEngines_ProcessThatIgnoresSIGTERMIsKilled(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "stubborn")
	p.StopGrace = 50 * time.Millisecond
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Running)
	poll.Until(t, "it ignores SIGTERM", func() bool { return strings.Contains(content(t, s.Log(p.Name)), "ignores") })
	if err := s.Down(context.Background()); err != nil {
		t.Fatal(err)
	}
	if alive(st.PID) || len(s.States()) != 0 {
		t.Errorf("states after Down: %v", s.States())
	}
}

func TestEngines_DownNamesWhatStillRuns(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "stubborn")
	s.Want([]Process{p})
	untilPhase(t, s, p.Name, Running)
	poll.Until(t, "it ignores SIGTERM", func() bool { return strings.Contains(content(t, s.Log(p.Name)), "ignores") })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Down(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), p.Name) {
		t.Errorf("Down: %v", err)
	}
	if st := untilPhase(t, s, p.Name, Stopping); st.PID == 0 {
		t.Errorf("state %+v", st)
	}
}

func TestEngines_EndedProcessStartsAgainWithLastWords(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "die", "KEY=sk-local-secret")
	p.Secrets = []string{"sk-local-secret"}
	s.Want([]Process{p})
	st := until(t, s, p.Name, "three restarts", func(st State) bool { return st.Phase == Waiting && st.Restarts >= 3 })
	if want := "helper die starts\nloading with [redacted]\nout of memory"; st.LastWords != want {
		t.Errorf("last words %q, want %q", st.LastWords, want)
	}
	if st.Reason != "exit status 3" || st.Failures < 4 {
		t.Errorf("state %+v", st)
	}
	record := content(t, filepath.Join(s.dir, fileName(p.Name)+recordEnd))
	if record == "" || strings.Contains(record, "secret") {
		t.Errorf("record: %s", record)
	}
}

func TestEngines_BackOffDoublesUpToItsLimit(t *testing.T) {
	var got []string
	for _, failures := range []int{0, 1, 2, 3, 8, 9, 10, 1 << 40} {
		got = append(got, production.delay(failures).String())
	}
	if want := "[1s 1s 2s 4s 2m8s 4m16s 5m0s 5m0s]"; fmt.Sprint(got) != want {
		t.Errorf("delays %v, want %v", got, want)
	}
}

func TestEngines_BackOffIsResetAfterItRanWell(t *testing.T) {
	for _, c := range []struct {
		well time.Duration
		want int
	}{{0, 1}, {time.Hour, 3}} {
		s := supervise(t, t.TempDir(), func(q *timings) { q.well = c.well })
		p := engine("ns/a/0", "idle")
		s.Want([]Process{p})
		for n := range 3 {
			st := until(t, s, p.Name, "runs", func(st State) bool { return st.Phase == Running && st.Restarts == n })
			if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		until(t, s, p.Name, "runs again", func(st State) bool { return st.Phase == Running && st.Restarts == 3 })
		s.Close()
		r, err := readRecord(filepath.Join(s.dir, fileName(p.Name)+recordEnd))
		if err != nil || r.Failures != c.want {
			t.Errorf("well %v: %d failures, want %d, %v", c.well, r.Failures, c.want, err)
		}
	}
}

func TestEngines_AnEndAfterServiceIsKnown(t *testing.T) {
	s := supervise(t, t.TempDir(), func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	p := engine("ns/a/0", "idle")
	s.Want([]Process{p})
	if err := syscall.Kill(untilPhase(t, s, p.Name, Running).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if st := untilPhase(t, s, p.Name, Waiting); !st.Served || st.Failures != 1 {
		t.Errorf("state %+v, want one end after service", st)
	}
}

func TestEngines_NotReadyInTimeIsFailed(t *testing.T) {
	s := supervise(t, t.TempDir(), func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	p := serving(t, "ns/a/0", "READY=/does/not/exist")
	s.Want([]Process{p})
	poll.Until(t, "it starts", func() bool { return strings.Contains(content(t, s.Log(p.Name)), "starts") })
	if st := stateOf(s, p.Name); st.Phase != Starting {
		t.Errorf("state %+v", st)
	}
	p.StartupTimeout = time.Millisecond // a change takes effect without a restart
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Failed)
	if st.Served || st.Failures != 1 {
		t.Errorf("state %+v, want one end without service", st)
	}
	if st.Reason != "not ready within 1ms" || !strings.Contains(st.LastWords, "helper serve starts") || st.PID != 0 ||
		st.Restarts != 0 {
		t.Errorf("state %+v", st)
	}
}

func TestEngines_ProgramThatIsAbsentIsFailedAndNamed(t *testing.T) {
	s := supervise(t, t.TempDir(), func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	p := engine("ns/a/0", "idle")
	p.Command[0] = "/does/not/exist"
	s.Want([]Process{p})
	if st := untilPhase(t, s, p.Name, Failed); !strings.Contains(st.Reason, "/does/not/exist") {
		t.Errorf("state %+v", st)
	}
}

func TestEngines_ChangedCommandWaitsForNoBackOff(t *testing.T) {
	s := supervise(t, t.TempDir(), func(q *timings) { q.first, q.longest = time.Hour, time.Hour })
	p := engine("ns/a/0", "die")
	s.Want([]Process{p})
	untilPhase(t, s, p.Name, Waiting)
	p.Inherited = append(p.Inherited, "TERM=other")
	s.Want([]Process{p})
	q := engine("ns/b/0", "idle")
	s.Want([]Process{p, q})
	untilPhase(t, s, q.Name, Running)
	if st := stateOf(s, p.Name); st.Phase != Waiting || st.Restarts != 0 {
		t.Errorf("state %+v", st)
	}
	fixed := engine(p.Name, "idle")
	s.Want([]Process{fixed, q})
	untilPhase(t, s, p.Name, Running)
}

func TestEngines_InvalidProcessIsFailedAndWhatRunsGoesOn(t *testing.T) {
	s := supervise(t, t.TempDir())
	p, q := engine("ns/a/0", "idle"), engine("ns/b/0", "idle")
	s.Want([]Process{p})
	first := untilPhase(t, s, p.Name, Running)
	for _, c := range []struct {
		want   string
		change func(*Process)
	}{
		{"absolute path", func(p *Process) { p.Command = []string{"relative"} }},
		{"absolute path", func(p *Process) { p.Command = nil }},
		{"working directory", func(p *Process) { p.Dir = "relative" }},
		{"NUL", func(p *Process) { p.Command = append([]string{"/a"}, "b\x00c") }},
		{"KEY=value", func(p *Process) { p.Env = []string{"=x"} }},
		{"KEY=value", func(p *Process) { p.Inherited = []string{"x"} }},
		{"are allowed", func(p *Process) { p.Env = []string{"A=" + strings.Repeat("x", maxArguments)} }},
		{"secrets", func(p *Process) { p.Secrets = make([]string, maxSecrets+1) }},
		{"127.0.0.1", func(p *Process) { p.Ready = "http://10.0.0.1:80/" }},
		{"127.0.0.1", func(p *Process) { p.Ready = "http://localhost:80/" }},
		{"127.0.0.1", func(p *Process) { p.Ready = "https://127.0.0.1:80/" }},
		{"127.0.0.1", func(p *Process) { p.Ready = "http://127.0.0.1/" }},
		{"127.0.0.1", func(p *Process) { p.Ready = "http://user@127.0.0.1:80/" }},
		{"parsed", func(p *Process) { p.Ready = "http://127.0.0.1:x/" }},
	} {
		broken, other := p, q
		c.change(&broken)
		c.change(&other)
		s.Want([]Process{broken, other})
		if st := stateOf(s, q.Name); st.Phase != Failed || !strings.Contains(st.Reason, c.want) {
			t.Errorf("want %q: %+v", c.want, st)
		}
		st := stateOf(s, p.Name)
		if st.PID != first.PID || st.Phase != Running || !strings.Contains(st.Reason, c.want) {
			t.Errorf("want %q: %+v", c.want, st)
		}
	}
	s.Want([]Process{p, p, {Name: strings.Repeat("x", maxName+1), Command: q.Command}, {Command: q.Command}})
	var reasons []string
	for _, st := range s.States() {
		reasons = append(reasons, fmt.Sprintf("%.6s %v: %s", st.Name, st.Phase, st.Reason))
	}
	want := " Failed: its name has 0 bytes, 1 to 1024 are allowed\n" +
		"ns/a/0 Running: two wanted processes have this name\n" +
		"xxxxxx Failed: its name has 1025 bytes, 1 to 1024 are allowed"
	if got := strings.Join(reasons, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEngines_FullTableStartsNoMoreUntilOneEnds(t *testing.T) {
	s := supervise(t, t.TempDir(), func(q *timings) { q.table = 2 })
	var wanted []Process
	for i := range 3 {
		wanted = append(wanted, engine(fmt.Sprintf("ns/a/%d", i), "idle"))
	}
	s.Want(wanted[1:])
	untilPhase(t, s, wanted[1].Name, Running)
	untilPhase(t, s, wanted[2].Name, Running)
	s.Want(wanted)
	if st := untilPhase(t, s, wanted[0].Name, Failed); !strings.Contains(st.Reason, "2 processes are the limit") {
		t.Errorf("state %+v", st)
	}
	s.Want(wanted[:2])
	untilPhase(t, s, wanted[0].Name, Running)
}

func TestEngines_SecondSupervisorOfAFolderIsAnError(t *testing.T) {
	dir := t.TempDir()
	s := supervise(t, dir)
	short := quick
	short.locked = 0
	_, err := open(dir, s.log, short)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Dir != dir {
		t.Fatalf("error %v", err)
	}
	s.Close()
	supervise(t, dir).Close()
}

func TestEngines_ChangesAreSignalled(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "idle")
	s.Want([]Process{p})
	for stateOf(s, p.Name).Phase != Running {
		select {
		case <-s.Changed():
		case <-time.After(poll.Limit):
			t.Fatal("no signal")
		}
	}
}

func TestEngines_WorkersOfADeadEngineAreKilled(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "worker")
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Running)
	worker := workerOf(t, s.Log(p.Name))
	if err := syscall.Kill(st.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, s, p.Name, "it starts again", func(now State) bool { return now.Phase == Running && now.PID != st.PID })
	poll.Until(t, "the worker has ended", func() bool { return !alive(worker) })
	if err := s.Down(t.Context()); err != nil {
		t.Error(err)
	}
}
