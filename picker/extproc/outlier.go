package extproc

import (
	"sync"
	"time"
)

// How long a picker that did not answer in time is left out: firstEjection, then twice as long with
// each further failure.
const (
	firstEjection = time.Second
	maxEjection   = 30 * time.Second
)

// outlier remembers that a picker did not answer in time, so that this costs one request its time
// and not every request. Envoy's outlier detection is the model: an ejected picker gets no request;
// when its time is over it gets one, whose outcome decides. Failures that take no time, such as a
// connection that the peer closes, eject nothing.
type outlier struct {
	mu       sync.Mutex
	failures int // in a row
	until    time.Time
	trial    bool  // the one request after an ejection is in flight
	err      error // the last failure
}

// admit returns why no request may be sent now, or nil; trial is set for the one request after an
// ejection. The caller calls done with the outcome of each request that was admitted.
func (o *outlier) admit(now time.Time) (trial bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.failures == 0:
		return false, nil
	case o.trial || now.Before(o.until):
		return false, o.err
	}
	o.trial = true
	return true, nil
}

// open reports whether admit would admit a request.
func (o *outlier) open(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failures == 0 || !o.trial && !now.Before(o.until)
}

// outcome is how a request to a picker ended.
type outcome int

const (
	answered outcome = iota // or failed at once: the picker is not stalled
	late                    // no answer in time
	canceled                // the client has gone: this shows nothing
)

func (o *outlier) done(now time.Time, trial bool, how outcome, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if trial {
		o.trial = false
	}
	switch how {
	case answered:
		o.failures, o.err = 0, nil
	case late:
		if o.failures > 0 && !trial { // one of several that were in flight
			return
		}
		o.until = now.Add(min(firstEjection<<min(o.failures, 10), maxEjection))
		o.failures++
		o.err = err
	}
}
