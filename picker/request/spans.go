package request

// maxSpans is how many values of "model" of one body have a span.
const maxSpans = 16

// span is where a value is in a body: offsets of its first byte and of the byte behind it.
type span struct{ start, end int }

// spans are where a body's top-level "model" has its values: of several the last counts for us, and
// another one perhaps for a server.
type spans struct {
	list    []span
	start   int // of the value that is being read
	reading bool
	pending event
	tooMany bool
}

// event is what the byte before has done to a value.
type event uint8

const (
	opened event = 1 + iota
	closed
)

// settle notes an event once its place is known: at is the offset behind the byte.
func (s *spans) settle(at int) {
	switch {
	case s.pending == opened:
		s.start, s.reading = at-1, true
	case !s.reading: // a byte that cannot begin a value was read as one
	case len(s.list) < maxSpans:
		s.list, s.reading = append(s.list, span{s.start, at}), false
	default:
		s.tooMany, s.reading = true, false
	}
	s.pending = 0
}

// settle is spans.settle of what is pending.
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
