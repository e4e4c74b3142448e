package delivery

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	stopsInterval = 100 * time.Millisecond
	// catchUpTime bounds how long a process takes, after it was stopped, to read changes and to
	// publish the endpoints that its picker names. Afterwards peers wait for it again.
	catchUpTime = 250 * time.Millisecond
)

// Stops detects that the process was stopped: by a signal, a debugger or a paused machine. Peers
// wait holdTimeout for it to follow a change, and then let Envoys drop endpoints that its picker
// still names. So picks wait for catchUpTime after a longer stop. Without peers they need not:
// Envoys receive nothing from elsewhere.
type Stops struct {
	log   *slog.Logger
	alone func() bool
	start time.Time
	beat  atomic.Int64 // the last one, since start; 0: Run has not begun
	until atomic.Int64 // picks wait until then, since start
}

// NewStops makes a Stops. alone reports that there are no peers.
func NewStops(alone func() bool, log *slog.Logger) *Stops {
	return &Stops{log: log, alone: alone, start: time.Now()}
}

// Behind returns how long a pick that begins now waits; 0 unless the process was stopped a moment
// ago. See picker.Config.
func (s *Stops) Behind(now time.Time) time.Duration {
	at, beat := now.Sub(s.start), time.Duration(s.beat.Load())
	wait := max(0, time.Duration(s.until.Load())-at)
	if beat > 0 && at-beat > holdTimeout { // this call runs before Run does
		wait = catchUpTime
	}
	if wait > 0 && s.alone() {
		return 0
	}
	return wait
}

// Run detects stops until ctx ends.
func (s *Stops) Run(ctx context.Context) error {
	beats := time.NewTicker(stopsInterval)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beats.C:
			s.note(time.Now())
		}
	}
}

func (s *Stops) note(now time.Time) {
	at := now.Sub(s.start)
	last := time.Duration(s.beat.Load())
	if stopped := at - last; last > 0 && stopped > holdTimeout && !s.alone() {
		s.until.Store(int64(at + catchUpTime))
		s.log.Warn("the process was stopped; picks wait a moment until it has read what has changed", "stopped",
			stopped.Round(time.Millisecond), "wait", catchUpTime)
	}
	s.beat.Store(int64(at))
}
