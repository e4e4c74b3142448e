//go:build engines

package features

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func (e *engine) busy(s *site) {
	s.Helper()
	series := map[string]string{"vllm": "vllm:num_requests_running{",
		"llamacpp": "llamacpp:requests_processing"}[e.kind]
	s.Eventually(e.name+" has requests", func() error {
		got, err := s.get(e.url("/metrics"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(got.body) {
			_, value, _ := strings.Cut(strings.TrimPrefix(line, series), " ")
			if n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64); n > 0 && strings.HasPrefix(line, series) {
				return nil
			}
		}
		return fmt.Errorf("got no %s above 0, want one", series)
	})
}

func (e *engine) again(s *site, name string) {
	s.Helper()
	e.signal(syscall.SIGKILL)
	s.Eventually("its processes are gone", func() error {
		return because(syscall.Kill(-e.group(), 0) != nil, "they run")
	})
	s.starts(s.engine(e.kind, name))
}

// killed kills one of two engines under load, in different ways in turn. It returns how many
// requests failed before their answer began.
func killed(t *testing.T, kind string, kills ...func(*engine) error) (failed int) {
	s := newSite(t)
	names := []string{"a", "b"}
	both := []*engine{s.engine(kind, "a"), s.engine(kind, "b")}
	s.starts(both...)
	s.up("engines.yaml")
	s.listed(`"tiny"`)
	l := s.askers(16, "tiny")
	for i, kill := range kills {
		victim := both[i%2]
		for _, e := range both {
			e.busy(s)
		}
		before, _ := l.counts()
		if err := kill(victim); err != nil {
			t.Fatal(err)
		}
		s.Eventually("the other one serves", func() error {
			n, _ := l.counts()
			return because(n >= before+100, n-before, " requests were served")
		})
		if i+1 < len(kills) {
			victim.again(s, names[i%2])
		}
	}
	l.end()
	for _, f := range l.failed[:min(5, len(l.failed))] {
		id, _, _ := strings.Cut(f, " ")
		out, _ := s.command("explain", "--why", id)
		t.Log(out)
	}
	t.Logf("%s: %d kills, %d requests were served, %d streams ended after they had begun, %d requests failed: %s",
		kind, len(kills), l.served, l.begun, len(l.failed), strings.Join(l.failed, "\n"))
	return len(l.failed)
}

func whole(e *engine) error {
	return syscall.Kill(-e.group(), syscall.SIGKILL)
}

func coreAlone(e *engine) error {
	pid, err := e.core()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func TestEngines_KilledCostsNoRequestThatHadNotBegun(t *testing.T) {
	failed := killed(t, "llamacpp", whole, whole, whole, whole, whole, whole, whole)
	failed += killed(t, "vllm", coreAlone, whole, coreAlone)
	figure("killed_failed", "requests", float64(failed), 0,
		"Requests that had not begun and failed when one of two servers was killed under load: ten kills.")
	if failed > 0 {
		t.Errorf("%d requests failed, want 0", failed)
	}
}
