package extproc

import (
	"sync"
	"time"
)

// Each ejection lasts twice as long as the previous one.
const (
	firstEjection = time.Second
	maxEjection   = 30 * time.Second
)

// outlier ejects a picker that did not answer in time, as Envoy's outlier detection does. After the
// ejection, one trial request is sent. A picker that fails at once is not ejected.
type outlier struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	trial    bool
	err      error
}

// admit returns why no request may be sent now, or nil. trial marks the first request after an
// ejection. The caller passes the outcome of each admitted request to done.
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

func (o *outlier) open(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failures == 0 || !o.trial && !now.Before(o.until)
}

type outcome int

const (
	answered outcome = iota // the picker answered or failed at once
	late
	canceled
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
		// Several requests in flight may be late; only the first counts.
		if o.failures > 0 && !trial {
			return
		}
		o.until = now.Add(min(firstEjection<<min(o.failures, 10), maxEjection))
		o.failures++
		o.err = err
	}
}
