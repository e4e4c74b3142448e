package graph

import (
	"iter"
	"slices"
)

// Index finds a table's rows by other keys. It is also a Source of these keys.
type Index[K comparable, V any, I comparable] struct {
	table *Table[K, V]
	keys  func(key K, value V) []I
	rows  map[I][]*row[K, V] // lists are sorted and never empty
	reads column[I]

	old, now []I
}

type index[K comparable, V any] interface {
	prepare(c Change[K, V])
	move(n *row[K, V])
}

// NewIndex adds an index to a table. The function `keys` must be pure: it is called again for old
// values.
func NewIndex[K comparable, V any, I comparable](t *Table[K, V], name string,
	keys func(key K, value V) []I) *Index[K, V, I] {
	ix := &Index[K, V, I]{table: t, keys: keys, rows: map[I][]*row[K, V]{}}
	ix.reads.name = t.Name + " by " + name
	t.indexes = append(t.indexes, ix)
	return ix
}

func (ix *Index[K, V, I]) has(key I) bool { return len(ix.rows[key]) > 0 }

func (ix *Index[K, V, I]) waits(key I) bool {
	return slices.ContainsFunc(ix.rows[key], func(n *row[K, V]) bool { return n.waits })
}

func (ix *Index[K, V, I]) feed(to dependent[I]) {
	ix.reads.dependents = append(ix.reads.dependents, to)
}

const few = 16

func (ix *Index[K, V, I]) prepare(c Change[K, V]) {
	ix.old, ix.now = nil, nil
	if c.Had {
		ix.old = ix.keys(c.Key, c.Old)
	}
	if c.Has {
		ix.now = ix.keys(c.Key, c.New)
	}
}

// move moves a row from its old keys to its new keys. If the old and the new value share a key,
// move invalidates only the rows that read the key. It does not invalidate the row with that key in
// dependent tables: otherwise each change of a route would recompute its clusters.
func (ix *Index[K, V, I]) move(n *row[K, V]) {
	old, now := ix.old, ix.now
	ix.old, ix.now = nil, nil
	wasIn, isIn := memberOf(old), memberOf(now)
	for _, k := range old {
		if isIn(k) {
			continue
		}
		if list := without(ix.rows[k], n); len(list) > 0 {
			ix.rows[k] = list
		} else {
			delete(ix.rows, k)
		}
	}
	for _, k := range now {
		if !wasIn(k) {
			ix.rows[k] = with(ix.rows[k], n)
		}
	}
	for _, k := range old {
		ix.reads.changed(k, !isIn(k))
	}
	for _, k := range now {
		if !wasIn(k) {
			ix.reads.changed(k, true)
		}
	}
}

func memberOf[I comparable](list []I) func(I) bool {
	if len(list) <= few {
		return func(k I) bool { return slices.Contains(list, k) }
	}
	set := make(map[I]struct{}, len(list))
	for _, k := range list {
		set[k] = struct{}{}
	}
	return func(k I) bool { _, ok := set[k]; return ok }
}

func (ix *Index[K, V, I]) read(r *Reader, key I) []*row[K, V] {
	r.check(ix.table.Name, ix.table.layer)
	read(r, &ix.reads, key)
	return ix.rows[key]
}

// By returns the rows at an index key, sorted by table key.
func (ix *Index[K, V, I]) By(r *Reader, key I) []Row[K, V] {
	list := ix.read(r, key)
	rows := make([]Row[K, V], len(list))
	for i, n := range list {
		rows[i] = Row[K, V]{n.key, n.value}
	}
	return rows
}

// Each is By without a copy. The iterator is valid until Compute returns.
func (ix *Index[K, V, I]) Each(r *Reader, key I) (n int, rows iter.Seq2[K, V]) {
	list := ix.read(r, key)
	return len(list), walk(list)
}
