package kube

import "context"

// gap is the state of a part (a kind in a scope) from the end of its watch until the store is up to
// date again. The API server ends each watch after some minutes.
type gap int

const (
	unwatched gap = iota
	// listing means that the new watch has not yet delivered all objects that exist.
	listing
)

type partContact struct {
	ctx    context.Context
	source *Source
	part   part
}

func (c *partContact) answered(err error) {
	if c.ctx.Err() == nil {
		c.source.answered(c.part, err)
	}
}

// unwatched begins a gap. A gap is not a finding, because the next watch nearly always begins
// within a millisecond.
func (c *partContact) unwatched() {
	s := c.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.ctx.Err() == nil {
		s.gaps[c.part] = unwatched
	}
}

func (c *partContact) watching(initial bool) {
	s := c.source
	s.mu.Lock()
	defer s.mu.Unlock()
	switch _, open := s.gaps[c.part]; {
	case c.ctx.Err() != nil || !open:
	case initial:
		s.gaps[c.part] = listing
	default:
		delete(s.gaps, c.part)
	}
}

func (s *Source) listed(p part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, open := s.gaps[p]; open && g == listing {
		delete(s.gaps, p)
	}
}
