package delivery

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// stopsInterval is the interval of beats, aloneInterval that of looks for the first peer.
	stopsInterval, aloneInterval = 100 * time.Millisecond, 500 * time.Millisecond
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
	beat  atomic.Int64 // the last one, since start; 0: none, or no peers
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

// note is a beat, and reports whether there are peers. Without peers there are no beats.
func (s *Stops) note(now time.Time) (peers bool) {
	if s.alone() {
		s.beat.Store(0)
		return false
	}
	at := now.Sub(s.start)
	last := time.Duration(s.beat.Load())
	if stopped := at - last; last > 0 && stopped > holdTimeout {
		s.until.Store(int64(at + catchUpTime))
		s.log.Warn("the process was stopped; picks wait a moment until it has read what has changed", "stopped",
			stopped.Round(time.Millisecond), "wait", catchUpTime)
	}
	s.beat.Store(int64(at))
	return true
}
