package delivery

import (
	"log/slog"
	"testing"
	"time"
)

func TestStops_PicksWaitAfterAStop(t *testing.T) {
	alone := false
	s := NewStops(func() bool { return alone }, slog.New(slog.DiscardHandler))
	at := func(ms int) time.Time { return s.start.Add(time.Duration(ms) * time.Millisecond) }
	expect := func(ms int, want time.Duration, when string) {
		t.Helper()
		if got := s.Behind(at(ms)); got != want {
			t.Errorf("%s: a pick waits %s, want %s", when, got, want)
		}
	}
	expect(5000, 0, "before the first beat")
	for ms := 5100; ms <= 5500; ms += 100 {
		s.note(at(ms))
		expect(ms+90, 0, "in a process that runs")
	}
	s.note(at(5750))
	expect(5760, 0, "after a beat that was a little late")
	expect(9750, catchUpTime, "after a stop, before the next beat")
	s.note(at(9760))
	expect(9770, catchUpTime-10*time.Millisecond, "after the next beat")
	s.note(at(9860))
	expect(9960, catchUpTime-200*time.Millisecond, "while the process catches up")
	s.note(at(9960))
	expect(10020, 0, "once it has caught up")
	alone = true
	if s.note(at(11000)) {
		t.Error("a process without peers beats as often as one with peers")
	}
	alone = false
	s.note(at(13000))
	expect(13010, 0, "once it has the first peer")
	alone = true
	expect(14000, 0, "after a stop of the only process, before the next beat")
	s.note(at(14010))
	expect(14020, 0, "after a stop of the only process")
}
