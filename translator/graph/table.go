package graph

import (
	"iter"
	"maps"
	"reflect"
	"slices"
)

// Table holds computed rows of type V with keys of type K.
type Table[K comparable, V any] struct {
	Name string
	// Order compares keys. Rows are computed and listed in this order.
	Order   func(a, b K) int
	Sources []Source[K]
	// Compute returns a key's value, or false for no row. Its result must depend only on key and on
	// reads through r. It must not modify values that it reads.
	Compute func(r *Reader, key K) (V, bool)
	// Recover returns the value for a key whose Compute panicked. If had is true, last is the
	// previous value. If Recover is nil, the previous value stays.
	Recover func(r *Reader, key K, last V, had bool) (V, bool)
	// Equal compares two values; nil means reflect.DeepEqual.
	Equal func(a, b V) bool

	engine   *Engine
	layer    int
	rows     map[K]*row[K, V]
	existing []*row[K, V] // sorted; nil if All must rebuild it
	indexes  []index[K, V]
	dirty    map[K]*subject // the changed key that the row read; nil if a source gained or lost key K
	fallen   map[K]fallen
	kept     map[K]struct{}
	byKey    column[K]
	all      column[struct{}]
}

// Source is a set of keys. A table computes a row for each key of its sources.
type Source[K comparable] interface {
	has(key K) bool
	waits(key K) bool // reports whether a row that gives the key waits (Engine.WaitForDemands)
	feed(to dependent[K])
}

type dependent[K comparable] interface{ markDirty(key K, cause *subject) }

type row[K comparable, V any] struct {
	node
	table *Table[K, V]
	key   K
	value V
	exist bool
	waits bool // the last Compute read a key that has not arrived
}

func (n *row[K, V]) invalidate(cause *subject) { n.table.markDirty(n.key, cause) }

func (n *row[K, V]) describe() string { return describe(n.table.Name, n.key) }

type layer interface {
	update(d *Diff)
	explain(matches func(key string) bool) []Explanation
}

// Declare adds a table to an engine. The engine computes tables in the order of declaration.
func Declare[K comparable, V any](e *Engine, t Table[K, V]) *Table[K, V] {
	t.engine, t.layer, t.rows = e, len(e.layers), map[K]*row[K, V]{}
	if e.names[t.Name] {
		panic("graph: table declared twice: " + t.Name)
	}
	e.names[t.Name] = true
	out := &t
	out.byKey.name, out.all.name = t.Name, t.Name+", all rows"
	for _, s := range t.Sources {
		s.feed(out)
	}
	e.layers = append(e.layers, out)
	return out
}

func (t *Table[K, V]) markDirty(key K, cause *subject) {
	if t.dirty == nil {
		t.dirty = map[K]*subject{}
	}
	t.dirty[key] = cause
}

func (t *Table[K, V]) has(key K) bool {
	n := t.rows[key]
	return n != nil && n.exist
}

func (t *Table[K, V]) waits(key K) bool { return t.rows[key].waits }

func (t *Table[K, V]) feed(to dependent[K]) { t.byKey.dependents = append(t.byKey.dependents, to) }

func (t *Table[K, V]) update(d *Diff) {
	var changes []Change[K, V]
	for key := range t.kept {
		t.markDirty(key, nil)
	}
	t.kept = nil
	keys := slices.AppendSeq(make([]K, 0, len(t.dirty)), maps.Keys(t.dirty))
	slices.SortFunc(keys, t.Order)
	for i, key := range keys {
		d.Computed[t.Name]++
		if c, changed := t.recompute(key, t.dirty[key], d); changed {
			if changes == nil {
				changes = make([]Change[K, V], 0, len(keys)-i)
			}
			changes = append(changes, c)
		}
	}
	t.dirty = nil
	if len(changes) > 0 {
		d.Changed[t.Name] = len(changes)
		d.changes[t.Name] = changes
	}
}

func (t *Table[K, V]) recompute(key K, cause *subject, d *Diff) (c Change[K, V], changed bool) {
	e, n := t.engine, t.rows[key]
	c.Key = key
	if n != nil {
		c.Old, c.Had = n.value, n.exist
	}
	e.computation++
	e.rows.Add(1)
	e.seen = e.seen[:0]
	if slices.ContainsFunc(t.Sources, func(s Source[K]) bool { return s.has(key) }) {
		differs, waits := t.compute(&c, n, d)
		if n == nil {
			n = &row[K, V]{table: t, key: key}
			n.node.row = n
			t.rows[key] = n
		}
		e.replaceReads(&n.node)
		n.cause, n.computed = cause, e.revision
		ended := n.waits && !waits
		n.waits = waits
		if !differs {
			t.endWait(key, ended && !c.Has)
			return c, false
		}
	} else {
		t.recovered(key, d)
		if n == nil {
			return c, false
		}
		e.dropReads(&n.node)
		delete(t.rows, key)
		if !c.Had {
			t.endWait(key, n.waits)
			return c, false
		}
		for _, ix := range t.indexes {
			ix.prepare(c)
		}
	}
	n.changed = e.revision
	t.set(n, c)
	return c, true
}

func (t *Table[K, V]) endWait(key K, waited bool) {
	if waited {
		t.byKey.changed(key, false)
	}
}

func (t *Table[K, V]) equal(a, b V) bool {
	if t.Equal != nil {
		return t.Equal(a, b)
	}
	return reflect.DeepEqual(a, b)
}

func (t *Table[K, V]) set(n *row[K, V], c Change[K, V]) {
	n.value, n.exist = c.New, c.Has
	moved := c.Had != c.Has
	if moved {
		t.existing = nil
	}
	t.byKey.changed(c.Key, moved)
	t.all.changed(struct{}{}, moved)
	for _, ix := range t.indexes {
		ix.move(n)
	}
}

func with[K comparable, V any](list []*row[K, V], n *row[K, V]) []*row[K, V] {
	i, ok := find(list, n)
	if ok {
		return list
	}
	return slices.Insert(list, i, n)
}

func without[K comparable, V any](list []*row[K, V], n *row[K, V]) []*row[K, V] {
	if i, ok := find(list, n); ok {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func find[K comparable, V any](list []*row[K, V], n *row[K, V]) (int, bool) {
	order := n.table.Order
	return slices.BinarySearchFunc(list, n.key, func(o *row[K, V], key K) int { return order(o.key, key) })
}

// Get returns the row of a key.
func (t *Table[K, V]) Get(r *Reader, key K) (value V, ok bool) {
	r.check(t.Name, t.layer)
	read(r, &t.byKey, key)
	n := t.rows[key]
	if n == nil || !n.exist {
		r.waits = r.waits || n != nil && n.waits
		return value, false
	}
	return n.value, true
}

// Row is a key with its value.
type Row[K comparable, V any] struct {
	Key   K
	Value V
}

// All iterates over all rows, sorted by key. The iterator is valid until Compute returns.
func (t *Table[K, V]) All(r *Reader) iter.Seq2[K, V] {
	r.check(t.Name, t.layer)
	read(r, &t.all, struct{}{})
	if t.existing == nil {
		for _, n := range t.rows {
			if n.exist {
				t.existing = append(t.existing, n)
			}
		}
		slices.SortFunc(t.existing, func(a, b *row[K, V]) int { return t.Order(a.key, b.key) })
	}
	return walk(t.existing)
}

func walk[K comparable, V any](list []*row[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, n := range list {
			if !yield(n.key, n.value) {
				return
			}
		}
	}
}

// Change is a row's value before and after an Update. Had and Has report whether the row existed.
type Change[K comparable, V any] struct {
	Key      K
	Old, New V
	Had, Has bool
}

// Changes lists the table's rows that an Update changed, sorted by key.
func (t *Table[K, V]) Changes(d *Diff) []Change[K, V] {
	list, _ := d.changes[t.Name].([]Change[K, V])
	return list
}
