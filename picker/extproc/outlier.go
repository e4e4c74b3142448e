package extproc

import (
	"sync"
	"time"
)

// The first ejection lasts firstEjection, and each further one twice as long as the one before, up
// to maxEjection.
const (
	firstEjection = time.Second
	maxEjection   = 30 * time.Second
)

// outlier decides whether a remote picker gets requests. Like Envoy's outlier detection, it ejects
// a picker that does not answer in time, and then admits one trial request. A picker that fails at
// once stays.
type outlier struct {
	mu       sync.Mutex
	failures int
	until    time.Time
	trial    bool
	err      error
}

// admit returns an error if the picker must get no request now. trial is true for the first request
// after an ejection. The caller passes trial and the outcome of each admitted request to done.
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
	answered outcome = iota
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
		// Of several late requests in flight, only the first counts. A late trial also counts.
		if o.failures > 0 && !trial {
			return
		}
		o.until = now.Add(min(firstEjection<<min(o.failures, 10), maxEjection))
		o.failures++
		o.err = err
	}
}
