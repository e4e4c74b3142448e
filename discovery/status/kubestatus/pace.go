package kubestatus

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// pace reduces the number of writes to an object that changes often, for example a Gateway to which
// a thousand routes attach. The first write of a series is immediate. Each later write waits until
// the object has not changed for a moment, but at most for a delay that doubles with each write.
type pace struct {
	mu   sync.Mutex
	last map[report.Ref]written
}

type written struct {
	at      time.Time
	delay   time.Duration
	changed time.Time
}

const (
	minDelay, maxDelay = 20 * time.Millisecond, 4 * time.Second
	moment             = 150 * time.Millisecond
	// rowEnd is how long after a write the next write begins a new series.
	rowEnd = 6 * time.Second
)

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

func (p *pace) drop(ref report.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, ref)
}
