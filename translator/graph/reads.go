package graph

// Reads are the most frequent operation. With a map in each column, a read needs one lookup.
type column[K comparable] struct {
	name       string
	subjects   map[K]*keyed[K]
	dependents []dependent[K]
	demand     *demandedIndex
}

type subject struct {
	key     described
	readers readers
	seen    uint64
}

type keyed[K comparable] struct {
	subject
	column *column[K]
	value  K
}

type described interface {
	forget()
	describe() string
}

func (s *keyed[K]) forget() { delete(s.column.subjects, s.value) }

func (s *keyed[K]) describe() string { return describe(s.column.name, s.value) }

type node struct {
	row   anyRow
	reads []*subject
	// cause is the changed key that the row read; nil if a source gained or lost the row's key.
	cause             *subject
	computed, changed uint32
}

type anyRow interface {
	invalidate(cause *subject)
	describe() string
}

const crowd = 16

// Nearly every subject has one to three readers. A slice or a map would be larger than the rest of
// the subject.
type readers struct {
	first *node
	more  *moreReaders
}

type moreReaders struct {
	pair [2]*node
	next *moreReaders
	many map[*node]struct{}
}

func (s *readers) empty() bool { return s.first == nil }

func (s *readers) add(n *node) {
	switch m := s.more; {
	case s.first == nil:
		s.first = n
	case m != nil && m.many != nil:
		m.many[n] = struct{}{}
	case m != nil && m.pair[1] == nil:
		m.pair[1] = n
	case m.rows() < crowd:
		s.more = &moreReaders{pair: [2]*node{n}, next: m}
	default:
		many := make(map[*node]struct{}, 2*crowd)
		for o := range m.all {
			many[o] = struct{}{}
		}
		many[n] = struct{}{}
		s.more = &moreReaders{many: many}
	}
}

func (m *moreReaders) rows() (n int) {
	for ; m != nil; m = m.next {
		n += 2
	}
	return n
}

func (s *readers) remove(n *node) {
	if s.first == n {
		s.first = s.pop()
		return
	}
	if s.more != nil && s.more.many != nil {
		delete(s.more.many, n)
		if len(s.more.many) == 0 {
			s.more = nil
		}
		return
	}
	for m := s.more; m != nil; m = m.next {
		for i := range m.pair {
			if m.pair[i] != n {
				continue
			}
			if last := s.pop(); last != n {
				m.pair[i] = last
			}
			return
		}
	}
}

func (s *readers) pop() (n *node) {
	m := s.more
	switch {
	case m == nil:
		return nil
	case m.many != nil:
		for n = range m.many {
			break
		}
		delete(m.many, n)
		if len(m.many) == 0 {
			s.more = nil
		}
	case m.pair[1] != nil:
		n, m.pair[1] = m.pair[1], nil
	default:
		n, s.more = m.pair[0], m.next
	}
	return n
}

func (s *readers) all(yield func(*node) bool) {
	if s.first != nil && yield(s.first) {
		s.more.all(yield)
	}
}

func (m *moreReaders) all(yield func(*node) bool) {
	for ; m != nil; m = m.next {
		for _, n := range m.pair {
			if n != nil && !yield(n) {
				return
			}
		}
		for n := range m.many {
			if !yield(n) {
				return
			}
		}
	}
}

func (s *subject) invalidate() {
	for n := range s.readers.all {
		n.row.invalidate(s)
	}
}

func (c *column[K]) changed(key K, moved bool) {
	if s := c.subjects[key]; s != nil {
		s.invalidate()
	}
	if !moved {
		return
	}
	for _, d := range c.dependents {
		d.markDirty(key, nil)
	}
}

func read[K comparable](r *Reader, c *column[K], key K) {
	if !r.remembers {
		return
	}
	s := c.subjects[key]
	if s == nil {
		if c.subjects == nil {
			c.subjects = map[K]*keyed[K]{}
		}
		s = &keyed[K]{column: c, value: key}
		s.subject.key = s
		c.subjects[key] = s
	}
	r.engine.note(&s.subject)
}

func (e *Engine) note(s *subject) {
	if s.seen != e.computation {
		s.seen = e.computation
		e.seen = append(e.seen, s)
	}
}

func (c *column[K]) isRead(key K) bool {
	s := c.subjects[key]
	return s != nil && !s.readers.empty()
}

func (e *Engine) dropReads(n *node) {
	for _, s := range n.reads {
		e.demand.readersChanged(s)
		s.readers.remove(n)
		if s.readers.empty() && s.seen != e.computation {
			s.key.forget()
		}
	}
	n.reads = nil
}

func (e *Engine) replaceReads(n *node) {
	same := len(n.reads) == len(e.seen)
	for _, s := range n.reads {
		same = same && s.seen == e.computation
	}
	if same {
		return
	}
	e.dropReads(n)
	n.reads = make([]*subject, len(e.seen))
	for i, s := range e.seen {
		n.reads[i] = s
		e.demand.readersChanged(s)
		s.readers.add(n)
	}
}
