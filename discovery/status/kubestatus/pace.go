package kubestatus

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// pace spaces the writes to one object, so that a thousand routes that attach to a Gateway do not
// cause a thousand writes to it. The first write of a row is immediate. Each later one is
// debounced: it waits until nothing has changed for a moment, or for at most the row's delay, which
// doubles with each write.
type pace struct {
	mu   sync.Mutex
	last map[report.Ref]written
}

// written is the last write of a row.
type written struct {
	at      time.Time
	delay   time.Duration // the longest time until the next one
	changed time.Time     // when something last changed
}

const (
	minDelay, maxDelay = 20 * time.Millisecond, 4 * time.Second
	// moment is how long nothing must have changed before a write.
	moment = 150 * time.Millisecond
	// rowEnd is how long after a write the next one starts a new row.
	rowEnd = 6 * time.Second
)

// changed records a change and returns how long to wait before it is written.
func (p *pace) changed(ref report.Ref, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok {
		return 0
	}
	w.changed = now
	p.last[ref] = w
	return w.wait(now)
}

// wait returns how long to wait before the next write.
func (p *pace) wait(ref report.Ref, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok {
		return 0
	}
	return w.wait(now)
}

func (w written) wait(now time.Time) time.Duration {
	latest := w.at.Add(w.delay)
	quiet := w.changed.Add(min(moment, w.delay))
	if quiet.Before(latest) {
		latest = quiet
	}
	return max(0, latest.Sub(now))
}

// wrote records a write.
func (p *pace) wrote(ref report.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok || now.Sub(w.at) > rowEnd {
		w.delay = minDelay
	} else {
		w.delay = min(2*w.delay, maxDelay)
	}
	w.at, w.changed = now, now
	p.last[ref] = w
}

// drop frees the record of an object that is gone.
func (p *pace) drop(ref report.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, ref)
}
