package graph

// column is one set of keys that can be read: of the store, of a table, or of an index. Of reads there are more than of
// anything else, so a column has its own map and a read is one lookup.
type column[K comparable] struct {
	name       string // for people: the table, and the index
	subjects   map[K]*keyed[K]
	dependents []dependent[K]
	demand     *demandedIndex // nil: Demand does not name the table
}

// subject is one key that rows have read.
type subject struct {
	key     described // the keyed that holds it
	readers readers
	seen    uint64 // the last computation that has read it
}

// keyed is a subject with its key.
type keyed[K comparable] struct {
	subject
	column *column[K]
	value  K
}

// described is a keyed with a key of any type.
type described interface {
	forget()
	describe() string
}

func (s *keyed[K]) forget() { delete(s.column.subjects, s.value) }

func (s *keyed[K]) describe() string { return describe(s.column.name, s.value) }

// node is the part of a row that is the same in all tables.
type node struct {
	row   anyRow // the row that holds it
	reads []*subject
	// cause is the read whose change led to the last recomputation; nil: the row's key came to, or went from, a source.
	cause *subject
	// computed and changed are the revisions of the store at which it was recomputed, and came out different, last.
	computed, changed uint32
}

// anyRow is a row of any table.
type anyRow interface {
	invalidate(cause *subject)
	describe() string
}

// crowd is how many readers are looked through one by one.
const crowd = 16

// readers is a set of rows. Nearly all have one or two.
type readers struct {
	few  []*node
	many map[*node]struct{} // instead of few
}

func (s *readers) len() int { return len(s.few) + len(s.many) }

// add puts in a row that is not in the set.
func (s *readers) add(n *node) {
	switch {
	case s.many != nil:
		s.many[n] = struct{}{}
	case len(s.few) < crowd:
		s.few = append(s.few, n)
	default:
		s.many = make(map[*node]struct{}, 2*crowd)
		for _, o := range s.few {
			s.many[o] = struct{}{}
		}
		s.many[n] = struct{}{}
		s.few = nil
	}
}

func (s *readers) remove(n *node) {
	delete(s.many, n)
	for i, o := range s.few {
		if o == n {
			last := len(s.few) - 1
			s.few[i], s.few[last] = s.few[last], nil
			s.few = s.few[:last]
			return
		}
	}
}

// all walks over the set, in no order.
func (s *readers) all(yield func(*node) bool) {
	for _, n := range s.few {
		if !yield(n) {
			return
		}
	}
	for n := range s.many {
		if !yield(n) {
			return
		}
	}
}

// invalidate marks all rows that have read the subject dirty.
func (s *subject) invalidate() {
	for n := range s.readers.all {
		n.row.invalidate(s)
	}
}

// changed marks everything dirty that has read a key and, if the key may have come or gone (moved), every row whose
// existence depends on it.
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

// read records a read of the computation in progress.
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

// note adds a subject to the reads of the computation in progress.
func (e *Engine) note(s *subject) {
	if s.seen != e.computation {
		s.seen = e.computation
		e.seen = append(e.seen, s)
	}
}

// isRead reports whether rows have read a key.
func (c *column[K]) isRead(key K) bool {
	s := c.subjects[key]
	return s != nil && s.readers.len() > 0
}

// dropReads takes a row out of the readers of all that it has read.
func (e *Engine) dropReads(n *node) {
	for _, s := range n.reads {
		e.demand.readersChanged(s)
		s.readers.remove(n)
		if s.readers.len() == 0 && s.seen != e.computation {
			s.key.forget()
		}
	}
	n.reads = nil
}

// replaceReads makes what the computation that has just ended read the reads of its row.
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
