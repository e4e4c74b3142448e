package kube

import "context"

// gap is the state of a part (a kind in a namespace or in the whole cluster) from the end of its
// watch until the store is up to date again. API servers end each watch after some minutes.
type gap int

const (
	unwatched gap = iota
	// listing means that a new watch has begun, but has not delivered all existing objects yet.
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

// unwatched records that the part's watch has ended. This causes no finding, because the next watch
// nearly always begins within a millisecond.
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
