package request

const maxSpans = 16

type span struct{ start, end int }

type spans struct {
	list    []span
	start   int
	reading bool
	pending event
	tooMany bool
}

type event uint8

const (
	opened event = 1 + iota
	closed
)

func (s *spans) settle(at int) {
	switch {
	case s.pending == opened:
		s.start, s.reading = at-1, true
	case !s.reading: // the value's first byte was invalid
	case len(s.list) < maxSpans:
		s.list, s.reading = append(s.list, span{s.start, at}), false
	default:
		s.tooMany, s.reading = true, false
	}
	s.pending = 0
}

func (s *Scanner) settle(at int) {
	s.due = false
	if s.named.pending != 0 {
		s.named.settle(at)
	}
	if s.nvext.removed.pending != 0 {
		s.nvext.removed.settle(at)
	}
	if s.top.pending != 0 {
		s.top.settle(at)
	}
	if s.nvext.enters != nil {
		*s.nvext.enters, s.nvext.enters = at, nil
	}
}

func (s *spans) reset() { *s = spans{list: s.list[:0]} }
