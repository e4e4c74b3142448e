package graph

import (
	"iter"
	"reflect"
	"slices"
)

// Index names of every table.
const (
	// ByID has a row's own key.
	ByID = "id"
	// ByAll has the one key "", which every row has.
	ByAll = "all"
)

// Source is an index whose distinct keys are the keys of a table's rows.
type Source struct {
	Table string // of the store, or declared earlier
	Index string
}

// Index is a further way to ask a table of results.
type Index[T any] struct {
	Name string
	Keys func(key string, value T) []string
}

// Table is one kind of result. It is a declaration and holds no rows: an Engine does.
type Table[T any] struct {
	Name    string
	Sources []Source
	// Compute makes the row of a key; false if there is none after all. It must be a pure function of what it reads
	// through r and of key, and must not change what it was given or gave.
	Compute func(r *Reader, key string) (T, bool)
	Indexes []Index[T]
	// Equal says whether two values mean the same; nil is reflect.DeepEqual.
	Equal func(a, b T) bool
}

// Declared is a Table of any type, as New takes it.
type Declared interface {
	name() string
	sources() []Source
	indexes() []string // beside ByID and ByAll
	compute(r *Reader, key string) (any, bool)
	keys(key string, value any) []indexKey
	equal(a, b any) bool
}

// indexKey is a key of one of the table's own indexes, by its place among them.
type indexKey struct {
	index int
	key   string
}

func (t *Table[T]) name() string      { return t.Name }
func (t *Table[T]) sources() []Source { return t.Sources }

func (t *Table[T]) indexes() []string {
	names := make([]string, len(t.Indexes))
	for i, ix := range t.Indexes {
		names[i] = ix.Name
	}
	return names
}

func (t *Table[T]) compute(r *Reader, key string) (any, bool) {
	v, ok := t.Compute(r, key)
	return v, ok
}

func (t *Table[T]) keys(key string, value any) []indexKey {
	var keys []indexKey
	for i, ix := range t.Indexes {
		for _, k := range ix.Keys(key, value.(T)) {
			keys = append(keys, indexKey{i, k})
		}
	}
	return slices.Clone(keys) // as long as they are many: what append took is up to twice that
}

func (t *Table[T]) equal(a, b any) bool {
	if t.Equal != nil {
		return t.Equal(a.(T), b.(T))
	}
	return reflect.DeepEqual(a, b)
}

// Get reads the row of a key.
func (t *Table[T]) Get(r *Reader, key string) (value T, ok bool) {
	n := r.behind(t.Name).nodes[key]
	r.remember(t.Name, ByID, key)
	if n == nil || !n.exist {
		return value, false
	}
	return n.value.(T), true
}

// Row is a row with its key.
type Row[T any] struct {
	Key   string
	Value T
}

// By reads the rows that have a key in an index, sorted by their own keys.
func (t *Table[T]) By(r *Reader, index, key string) []Row[T] {
	nodes := r.results(t.Name, index, key)
	rows := make([]Row[T], len(nodes))
	for i, n := range nodes {
		rows[i] = Row[T]{n.key, n.value.(T)}
	}
	return rows
}

// Each is By without a copy: how many rows there are, and a walk over them. Walk before the Compute ends.
func (t *Table[T]) Each(r *Reader, index, key string) (n int, rows iter.Seq2[string, T]) {
	nodes := r.results(t.Name, index, key)
	return len(nodes), func(yield func(string, T) bool) {
		for _, n := range nodes {
			if !yield(n.key, n.value.(T)) {
				return
			}
		}
	}
}

// Change is what an Update did to one row.
type Change[T any] struct {
	Key      string
	Old, New T
	Had, Has bool // whether Old and New exist
}

// Changes lists what an Update did to the table's rows, sorted by key.
func (t *Table[T]) Changes(d *Diff) []Change[T] {
	list := d.tables[t.Name]
	out := make([]Change[T], len(list))
	for i, c := range list {
		out[i] = Change[T]{Key: c.key, Had: c.had, Has: c.has}
		if c.had {
			out[i].Old = c.old.(T)
		}
		if c.has {
			out[i].New = c.new.(T)
		}
	}
	return out
}
