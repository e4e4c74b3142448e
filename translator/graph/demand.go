package graph

import (
	"cmp"
	"slices"
	"strings"
)

// Key is a key in an index of a store table.
type Key struct{ Table, Index, Key string }

// Compare orders keys.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Table, o.Table), strings.Compare(k.Index, o.Index), strings.Compare(k.Key, o.Key))
}

// Demand names store tables for Diff.Wanted and Diff.Unwanted, which list the keys of these tables
// that rows start or stop reading. Demand must be called before the first Update.
func (e *Engine) Demand(tables ...string) { e.follow(true, tables) }

// Follow is Demand for tables whose objects may never arrive. No row waits for their keys.
func (e *Engine) Follow(tables ...string) { e.follow(false, tables) }

func (e *Engine) follow(wait bool, tables []string) {
	for _, t := range tables {
		e.demanded[t] = wait
	}
	for name, c := range e.columns {
		c.demand = e.demandFor(name)
	}
}

// OnDemand reports whether the store holds only those keys of a table that rows read.
func (r *Reader) OnDemand(table string) bool {
	wait, ok := r.engine.demanded[table]
	return ok && wait
}

// WaitForDemands makes a row that reads a new key wait until an Update lists the key as arrived. A
// waiting row keeps its last value. A row also stays while one of its source rows waits. Rows that
// read a waiting row without a value wait, too.
func (e *Engine) WaitForDemands() { e.demand.wait = true }

func (e *Engine) demandFor(name [2]string) *demandedIndex {
	wait, ok := e.demanded[name[0]]
	if !ok {
		return nil
	}
	return &demandedIndex{table: name[0], index: name[1], wait: wait, read: map[string]bool{}}
}

type demandedIndex struct {
	table, index string
	wait         bool
	read         map[string]bool // by key that rows read; true if the key has arrived
}

type demand struct {
	wait  bool
	dirty map[*keyed[string]]struct{}
}

func (d *demand) misses(c *column[string], key string) bool {
	return d.wait && c.demand != nil && c.demand.wait && !c.demand.read[key]
}

func (e *Engine) arrive(keys []Key) {
	for _, k := range keys {
		c := e.column(k.Table, k.Index)
		if c.demand == nil {
			continue
		}
		if there, wanted := c.demand.read[k.Key]; wanted && !there {
			c.demand.read[k.Key] = true
			c.changed(k.Key, false)
		}
	}
}

// sourceWaits reports whether a waiting source row gives the key. Readers of the waiting row's last
// value may reference the key's row, so the key's row must stay.
func (t *Table[K, V]) sourceWaits(key K) bool {
	return slices.ContainsFunc(t.Sources, func(s Source[K]) bool { return s.has(key) && s.waits(key) })
}

// keep makes the next Update recompute a row: the end of a source's wait invalidates no row.
func (t *Table[K, V]) keep(key K) {
	if t.kept == nil {
		t.kept = map[K]struct{}{}
	}
	t.kept[key] = struct{}{}
}

func (d *demand) readersChanged(s *subject) {
	if k, ok := s.key.(*keyed[string]); ok && k.column.demand != nil {
		if d.dirty == nil {
			d.dirty = map[*keyed[string]]struct{}{}
		}
		d.dirty[k] = struct{}{}
	}
}

func (d *demand) settle() (wanted, unwanted []Key) {
	for s := range d.dirty {
		index := s.column.demand
		key := Key{index.table, index.index, s.value}
		_, before := index.read[s.value]
		switch now := s.column.isRead(s.value); {
		case now && !before:
			index.read[s.value] = !d.wait || !index.wait
			wanted = append(wanted, key)
		case before && !now:
			delete(index.read, s.value)
			unwanted = append(unwanted, key)
		}
	}
	d.dirty = nil // a reused map would keep its large size from the first Update
	slices.SortFunc(wanted, Key.Compare)
	slices.SortFunc(unwanted, Key.Compare)
	return wanted, unwanted
}
