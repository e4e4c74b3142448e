package endpoint

import (
	"sync/atomic"
	"time"
)

const (
	// A failed request raises a server's score by failed, and a successful one lowers it by 1. A
	// server is suspect while its score is at least failing: after three failures in a row, or if
	// more than one request in three fails.
	failed, failing = 2, 6
	// A suspect server gets one request as a trial firstTrial after its last failure. Each failed
	// trial doubles the pause before the next one, up to lastTrial.
	firstTrial, lastTrial = time.Second, 30 * time.Second
)

// String describes f to users.
func (f *Failure) String() string {
	return "its requests fail, the last one at " + f.At.UTC().Format(time.RFC3339) + " (" + f.Why + ")"
}

type health struct {
	score  atomic.Int32
	trials atomic.Int32
	next   atomic.Int64 // next trial, in ns since processStart; valid only while suspect
	trial  atomic.Bool
	proven atomic.Bool
	good   atomic.Int64
	last   atomic.Pointer[Failure]
}

// Failure is a request that a server did not serve.
type Failure struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

func (h *health) succeed(now int64) {
	h.good.Store(now)
	h.works()
}

func (h *health) works() {
	h.proven.Store(true)
	h.trials.Store(0)
	for {
		score := h.score.Load()
		next := max(score-1, 0)
		if score >= failing {
			next = 0
		}
		if score == next || h.score.CompareAndSwap(score, next) {
			return
		}
	}
}

func (h *health) fail(why string, now int64) {
	h.last.Store(&Failure{processStart.Add(time.Duration(now)), why})
	h.proven.Store(false)
	if h.score.Add(failed) < failing {
		return
	}
	h.score.Store(failing)
	pause := min(firstTrial<<min(h.trials.Add(1)-1, 10), lastTrial)
	h.next.Store(now + int64(pause))
}

func (h *health) failing(now int64) (yes, trial bool) {
	if h.score.Load() < failing {
		return false, !h.trial.Load()
	}
	return true, now >= h.next.Load() && !h.trial.Load()
}

// Failing reports whether the server is suspect because its requests often fail.
func (l *Load) Failing(at Moment) bool {
	failing, _ := l.health.failing(int64(at))
	return failing
}

// LastFailure returns the server's last failure, or zero.
func (l *Load) LastFailure() Failure {
	if last := l.health.last.Load(); last != nil {
		return *last
	}
	return Failure{}
}

// Succeeded returns the time of the server's last successful response, or zero.
func (l *Load) Succeeded() time.Time {
	if at := l.health.good.Load(); at != 0 {
		return processStart.Add(time.Duration(at))
	}
	return time.Time{}
}

// Revived records a successful probe of a dead server.
func (l *Load) Revived() { l.health.works() }

// Died makes a server suspect until a request or probe succeeds, because its /health fails.
func (l *Load) Died(now time.Time) {
	for l.health.score.Load() < failing {
		l.health.fail("its /health fails", sinceStart(now))
	}
}
