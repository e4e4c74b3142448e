package delivery

import (
	"context"
	"sync"
)

// Progress records how far delivery has come.
type Progress struct {
	mu      sync.Mutex
	begun   bool // a change was delivered, perhaps an empty one
	rev     uint64
	changed chan struct{}
}

// NewProgress makes the Progress of a process that has delivered nothing.
func NewProgress() *Progress { return &Progress{changed: make(chan struct{})} }

// Steps implements Part.
func (p *Progress) Steps() []Step {
	return []Step{{Reach, func(_ context.Context, c *Change) { p.reach(c.Revision) }}}
}

func (p *Progress) reach(rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun, p.rev = true, max(p.rev, rev)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Begun reports whether a change was delivered.
func (p *Progress) Begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// Revision is the last delivered revision.
func (p *Progress) Revision() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rev
}

// Wait returns when revision rev was delivered. If ctx ends first, it returns the context's error.
func (p *Progress) Wait(ctx context.Context, rev uint64) error {
	for {
		p.mu.Lock()
		done, changed := p.rev >= rev, p.changed
		p.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
