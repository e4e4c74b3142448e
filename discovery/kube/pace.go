package kube

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// pace spaces the writes to one object, so that a thousand routes which attach to a Gateway are not a thousand writes to
// it: the first is at once; in a row of them the next one waits until nothing has changed for a moment, or for as long as
// the row has made it patient.
type pace struct {
	mu   sync.Mutex
	last map[report.Ref]written
}

// written is the last write of a row.
type written struct {
	at      time.Time
	patient time.Duration // how long the next one waits at most
	touched time.Time     // when something last changed
}

const (
	shortest, longest = 20 * time.Millisecond, 4 * time.Second
	// moment is how long nothing must have changed.
	moment = 150 * time.Millisecond
	// calm is how long after a write the next one is the first of a row again.
	calm = 6 * time.Second
)

// touch notes that something has changed, and returns how long to wait before it is written.
func (p *pace) touch(ref report.Ref, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok {
		return 0
	}
	w.touched = now
	p.last[ref] = w
	return w.wait(now)
}

// wait is how long to wait before the next write.
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
	latest := w.at.Add(w.patient)
	settled := w.touched.Add(min(moment, w.patient))
	if settled.Before(latest) {
		latest = settled
	}
	return max(0, latest.Sub(now))
}

// note notes a write.
func (p *pace) note(ref report.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok || now.Sub(w.at) > calm {
		w.patient = shortest
	} else {
		w.patient = min(2*w.patient, longest)
	}
	w.at, w.touched = now, now
	p.last[ref] = w
}

func (p *pace) forget(ref report.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, ref)
}
