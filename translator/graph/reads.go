package graph

// column is one index of one table, of the store or of results. Each exists once, so that a read is two words and a
// key: of reads there are more than of anything else.
type column struct {
	table, index string
	demanded     bool  // Demand named the table
	layers       []int // that have it as a source
}

// dependency is one thing that can be read: a key of a column.
type dependency struct {
	*column
	key string
}

// subject is a dependency that rows have read.
type subject struct {
	dependency
	readers readers
	seen    uint64 // the last computation that has read it
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

func (s *readers) each(f func(*node)) {
	for _, n := range s.few {
		f(n)
	}
	for n := range s.many {
		f(n)
	}
}

// column finds or makes the column of an index.
func (e *Engine) column(table, index string) *column {
	name := [2]string{table, index}
	c := e.columns[name]
	if c == nil {
		_, demanded := e.demanded[table]
		c = &column{table: table, index: index, demanded: demanded}
		e.columns[name] = c
	}
	return c
}

// read notes a read of the computation that is under way.
func (e *Engine) read(dep dependency) {
	s := e.subjects[dep]
	if s == nil {
		s = &subject{dependency: dep}
		e.subjects[dep] = s
	}
	if s.seen != e.computation {
		s.seen = e.computation
		e.seen = append(e.seen, s)
	}
}

func (e *Engine) isRead(dep dependency) bool {
	s := e.subjects[dep]
	return s != nil && s.readers.len() > 0
}

func (e *Engine) forgetReads(n *node) {
	for _, s := range n.reads {
		e.demand.touch(s.dependency)
		s.readers.remove(n)
		if s.readers.len() == 0 && s.seen != e.computation {
			delete(e.subjects, s.dependency)
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
	e.forgetReads(n)
	n.reads = make([]*subject, len(e.seen))
	for i, s := range e.seen {
		n.reads[i] = s
		e.demand.touch(s.dependency)
		s.readers.add(n)
	}
}
