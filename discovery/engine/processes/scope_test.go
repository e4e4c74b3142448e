package processes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func busctl(t *testing.T, status int) (program, calls string) {
	t.Helper()
	dir := t.TempDir()
	program, calls = filepath.Join(dir, "busctl"), filepath.Join(dir, "calls")
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\necho denied >&2\nexit %d\n", calls, status)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, calls
}

// Without its own scope, an engine ends with penstock's unit.
func TestScope_EachEngineGetsOneAndAnAdoptedOneAgain(t *testing.T) {
	program, calls := busctl(t, 0)
	systemd := func(c *timings) { c.systemd, c.busctl = t.TempDir(), program }
	dir := t.TempDir()
	first := supervise(t, dir, systemd)
	p := engine("ns/a/0", "idle")
	first.Want([]Process{p})
	pid := untilPhase(t, first, p.Name, Running).PID
	want := fmt.Sprintf("StartTransientUnit ssa(sv)a(sa(sv)) penstock-engine-%s-%d.scope fail 3 "+
		"Description s model server of penstock CollectMode s inactive-or-failed PIDs au 1 %[2]d 0\n",
		fileName(p.Name), pid)
	called := func(times int) {
		t.Helper()
		poll.Until(t, fmt.Sprint(times, " calls of systemd"), func() bool {
			raw, _ := os.ReadFile(calls)
			return strings.Count(string(raw), want) == times
		})
	}
	called(1)
	first.Close()
	// The call of the first supervisor may have failed, so the next one repeats it.
	supervise(t, dir, systemd)
	called(2)
}

func TestScope_AnEngineRunsWithoutOne(t *testing.T) {
	program, calls := busctl(t, 1)
	for _, systemd := range []string{"", filepath.Join(t.TempDir(), "absent"), t.TempDir()} {
		s := supervise(t, t.TempDir(), func(c *timings) { c.systemd, c.busctl = systemd, program })
		p := engine("ns/a/0", "idle")
		s.Want([]Process{p})
		untilPhase(t, s, p.Name, Running)
		s.Close()
	}
	if raw, _ := os.ReadFile(calls); strings.Count(string(raw), "\n") > 1 {
		t.Errorf("systemd is called without running:\n%s", raw)
	}
}
