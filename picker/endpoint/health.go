package endpoint

import (
	"sync/atomic"
	"time"
)

const (
	// A failed request adds failed to a server's score, a successful one takes one away; at failing
	// the server is suspect. So three failures in a row make it suspect, and so does more than one
	// failure in three in the long run.
	failed, failing = 2, 6
	// The first trial of a failing server comes firstTrial after the last failure, each further one
	// after twice the time.
	firstTrial, lastTrial = time.Second, 30 * time.Second
)

// String describes the failure of a server whose requests fail.
func (f *Failure) String() string {
	return "its requests fail, the last one at " + f.At.UTC().Format(time.RFC3339) + " (" + f.Why + ")"
}

// health is what requests show about a server.
type health struct {
	score  atomic.Int32
	trials atomic.Int32 // that failed, in a row
	next   atomic.Int64 // when the next trial may be, in nanoseconds since processStart; holds only while it is failing
	trial  atomic.Bool  // one is in flight
	// proven means that a request has succeeded since the server's page became stale.
	proven atomic.Bool
	// when a response last showed a working server, in nanoseconds since processStart; 0: never
	good atomic.Int64
	last atomic.Pointer[Failure] // nil: there was none
}

// Failure is a request that a server did not serve.
type Failure struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"` // in few words
}

// succeed records a response that shows a working server.
func (h *health) succeed(now int64) {
	h.good.Store(now)
	h.works()
}

// works counts what shows a working server.
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

// fail records a request that the server did not serve, and why.
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

// failing reports whether requests to the server often fail, and whether a trial may be sent.
func (h *health) failing(now int64) (yes, trial bool) {
	if h.score.Load() < failing {
		return false, !h.trial.Load()
	}
	return true, now >= h.next.Load() && !h.trial.Load()
}

// Failing reports whether requests to the server often fail, so that it is suspect.
func (l *Load) Failing(at Moment) bool {
	failing, _ := l.health.failing(int64(at))
	return failing
}

// LastFailure returns the last request that the server did not serve; the zero value: there was
// none.
func (l *Load) LastFailure() Failure {
	if last := l.health.last.Load(); last != nil {
		return *last
	}
	return Failure{}
}

// Succeeded returns when a response last showed a working server; the zero time: never.
func (l *Load) Succeeded() time.Time {
	if at := l.health.good.Load(); at != 0 {
		return processStart.Add(time.Duration(at))
	}
	return time.Time{}
}

// Revived records that a server that was down answers a probe. No request has succeeded there.
func (l *Load) Revived() { l.health.works() }

// Died records that the server is dead. It is suspect until a request shows that it works again.
func (l *Load) Died(now time.Time) {
	for l.health.score.Load() < failing {
		l.health.fail("its /health fails", sinceStart(now))
	}
}
