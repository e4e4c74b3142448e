package graph

import (
	"fmt"
	"runtime/debug"
	"slices"
)

// Panic is a row whose computation panicked. The row gets the value of Table.Recover, or else keeps
// its last value.
type Panic struct {
	Table string
	Key   any
	Value any // argument of panic
	Stack []byte
}

// String returns the row's key and the panic's value.
func (p *Panic) String() string {
	return describe(p.Table, p.Key) + ": " + fmt.Sprint(p.Value)
}

// Recovered is a row whose computation panicked before and has now succeeded, or that is gone.
type Recovered struct {
	Table string
	Key   any
}

// misuse is the panic value if a table reads a later table.
type misuse string

type fallen struct {
	// good has the reads of the last good value. They stay recorded, so the store keeps their keys.
	good []*subject
}

func (t *Table[K, V]) compute(c *Change[K, V], n *row[K, V], d *Diff) (changed, waits bool) {
	r := &Reader{engine: t.engine, layer: t.layer, remembers: true}
	changed, p := t.try(r, c, t.Compute)
	if p == nil {
		t.recovered(c.Key, d)
		return changed, r.waits
	}
	t.fell(c.Key, n)
	d.Panics = append(d.Panics, p)
	if t.Recover != nil {
		last, had := c.Old, c.Had
		changed, again := t.try(r, c, func(r *Reader, key K) (V, bool) { return t.Recover(r, key, last, had) })
		if again == nil {
			return changed, false
		}
	}
	c.New, c.Has = c.Old, c.Had
	return false, false
}

// try runs all code that may panic. The table gets the new value only afterwards.
func (t *Table[K, V]) try(r *Reader, c *Change[K, V], compute func(*Reader, K) (V, bool)) (changed bool, p *Panic) {
	defer func() {
		v := recover()
		if m, ok := v.(misuse); ok {
			panic(m)
		}
		if v != nil {
			changed, p = false, &Panic{Table: t.Name, Key: c.Key, Value: v, Stack: debug.Stack()}
		}
	}()
	c.New, c.Has = compute(r, c.Key)
	if c.Had && !c.Has && t.sourceWaits(c.Key) {
		t.keep(c.Key)
		r.waits = true
	}
	if r.waits {
		c.New, c.Has = c.Old, c.Had
		return false, nil
	}
	if c.Had == c.Has && (!c.Has || t.equal(c.Old, c.New)) {
		return false, nil
	}
	for _, ix := range t.indexes {
		ix.prepare(*c)
	}
	return true, nil
}

func (t *Table[K, V]) fell(key K, n *row[K, V]) {
	f, again := t.fallen[key]
	if !again && n != nil {
		f.good = slices.Clone(n.reads)
	}
	if t.fallen == nil {
		t.fallen = map[K]fallen{}
	}
	t.fallen[key] = f
	for _, s := range f.good {
		t.engine.note(s)
	}
}

func (t *Table[K, V]) recovered(key K, d *Diff) {
	if _, ok := t.fallen[key]; ok {
		delete(t.fallen, key)
		d.Recovered = append(d.Recovered, Recovered{t.Name, key})
	}
}
