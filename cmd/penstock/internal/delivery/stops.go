package delivery

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// stopsInterval is the time between two beats of a Stops.
	stopsInterval = 100 * time.Millisecond
	// catchUpTime is how long a process that was stopped takes at most to read what has changed
	// meanwhile, and to be followed by its peers: they wait for its picker again once it has
	// published what it names.
	catchUpTime = 250 * time.Millisecond
)

// Stops notices that the process was stopped: by a signal, a debugger or a paused machine. Peers
// wait holdTimeout for it to follow a change, and then have Envoys drop endpoints that its picker
// still names. So picks wait for catchUpTime after a longer stop. Without peers they do not: Envoys
// have nothing that this process does not know.
type Stops struct {
	log   *slog.Logger
	alone func() bool
	start time.Time
	beat  atomic.Int64 // the last one, since start; 0: Run has not begun
	until atomic.Int64 // picks wait until then, since start
}

// NewStops makes it. alone reports that there are no peers.
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

// Run notices stops until ctx ends.
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

// note is a beat.
func (s *Stops) note(now time.Time) {
	at := now.Sub(s.start)
	last := time.Duration(s.beat.Load())
	if stopped := at - last; last > 0 && stopped > holdTimeout && !s.alone() {
		s.until.Store(int64(at + catchUpTime))
		s.log.Warn("the process was stopped; picks wait a moment until it knows what has changed", "stopped",
			stopped.Round(time.Millisecond), "wait", catchUpTime)
	}
	s.beat.Store(int64(at))
}
