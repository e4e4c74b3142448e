package kube

import "context"

// gap is the time from the end of a part's watch until the store has caught up. The API server ends
// each watch after some minutes.
type gap int

const (
	// unwatched: no watch is established.
	unwatched gap = iota
	// listing: a watch is established that delivers all objects first, and has not finished.
	listing
)

// partContact records the reads of a part until ctx ends. It implements contact.
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

// unwatched begins a gap. It is not a finding: nearly always the next watch follows within a
// millisecond.
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
