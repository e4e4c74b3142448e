package delivery

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	stopsInterval, aloneInterval = 100 * time.Millisecond, 500 * time.Millisecond
	// catchUpTime is how long a process needs after a pause to read changes and publish its
	// endpoints.
	catchUpTime = 250 * time.Millisecond
)

// Stops detects pauses of the process. Peers wait only holdTimeout for this process to follow a
// change, so Envoys may drop endpoints that its picker still names. After a longer pause, picks
// wait.
type Stops struct {
	log   *slog.Logger
	alone func() bool
	start time.Time
	beat  atomic.Int64
	until atomic.Int64 // picks wait until this time, counted from start
}

// NewStops makes a Stops. alone reports whether there are no peers.
func NewStops(alone func() bool, log *slog.Logger) *Stops {
	return &Stops{log: log, alone: alone, start: time.Now()}
}

// Behind returns how long a pick that begins now must wait; 0 unless the process has just resumed.
func (s *Stops) Behind(now time.Time) time.Duration {
	at, beat := now.Sub(s.start), time.Duration(s.beat.Load())
	wait := max(0, time.Duration(s.until.Load())-at)
	if beat > 0 && at-beat > holdTimeout {
		wait = catchUpTime
	}
	if wait > 0 && s.alone() {
		return 0
	}
	return wait
}

// Run detects pauses until ctx ends.
func (s *Stops) Run(ctx context.Context) error {
	for {
		next := aloneInterval
		if s.note(time.Now()) {
			next = stopsInterval
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(next):
		}
	}
}

func (s *Stops) note(now time.Time) (peers bool) {
	if s.alone() {
		s.beat.Store(0)
		return false
	}
	at := now.Sub(s.start)
	last := time.Duration(s.beat.Load())
	if stopped := at - last; last > 0 && stopped > holdTimeout {
		s.until.Store(int64(at + catchUpTime))
		s.log.Warn("the process was paused; picks wait until it has read the changes", "stopped",
			stopped.Round(time.Millisecond), "wait", catchUpTime)
	}
	s.beat.Store(int64(at))
	return true
}
