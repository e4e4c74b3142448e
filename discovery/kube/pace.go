package kube

import (
	"sync"
	"time"

	"github.com/penstock-project/penstock/discovery/report"
)

// pace spaces the writes to one object: the first is at once, and the more come in a row the longer the next one waits, so
// that a thousand routes which attach to a Gateway are not a thousand writes to it.
type pace struct {
	mu   sync.Mutex
	last map[report.Ref]written
}

type written struct {
	at  time.Time
	gap time.Duration
}

const (
	firstGap, longestGap = 20 * time.Millisecond, time.Second
	// calm is how long after a write the next one is the first of a row again.
	calm = 3 * time.Second
)

// wait is how long to wait before the next write.
func (p *pace) wait(ref report.Ref, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok {
		return 0
	}
	return max(0, w.at.Add(w.gap).Sub(now))
}

func (p *pace) note(ref report.Ref, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.last[ref]
	if !ok || now.Sub(w.at) > calm {
		w.gap = firstGap
	} else {
		w.gap = min(2*w.gap, longestGap)
	}
	w.at = now
	p.last[ref] = w
}

func (p *pace) forget(ref report.Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, ref)
}
