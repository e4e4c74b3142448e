package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/penstock-project/penstock/discovery/store"
)

// Engine recomputes tables. It is not safe for concurrent use.
type Engine struct {
	layers   []layer
	names    map[string]bool
	columns  map[[2]string]*column[string]
	demanded map[string]bool // by store table, from Demand (true: rows wait) and Follow (false)
	demand   *demand
	world    *store.View
	revision uint32

	computation uint64
	rows        atomic.Uint64
	seen        []*subject
}

// New returns an engine without tables.
func New() *Engine {
	return &Engine{names: map[string]bool{}, columns: map[[2]string]*column[string]{}, demanded: map[string]bool{},
		demand: &demand{}}
}

func (e *Engine) column(table, index string) *column[string] {
	name := [2]string{table, index}
	c := e.columns[name]
	if c == nil {
		c = &column[string]{name: "store " + table + " by " + index, demand: e.demandFor(name)}
		e.columns[name] = c
	}
	return c
}

// Stored returns an index of the store as a source.
func (e *Engine) Stored(table, index string) Source[string] {
	return stored{e, table, index}
}

type stored struct {
	engine       *Engine
	table, index string
}

func (s stored) has(key string) bool {
	return s.engine.world.Rows(s.table, s.index, key).Len() > 0
}

func (s stored) waits(string) bool { return false }

func (s stored) feed(to dependent[string]) {
	c := s.engine.column(s.table, s.index)
	c.dependents = append(c.dependents, to)
}

// Diff reports an Update's changes and recomputed rows.
type Diff struct {
	changes map[string]any
	// Computed and Changed count rows; the key is the table's name.
	Computed, Changed map[string]int
	// Wanted and Unwanted list the keys in tables of Demand and Follow that rows started and
	// stopped reading.
	Wanted, Unwanted []Key
	Panics           []*Panic
	Recovered        []Recovered
}

// Update recomputes the rows that the changes invalidate. The parameter `changes` must list all
// differences between view and the last view; a new engine needs store.Everything. The parameter
// `arrived` lists keys from Diff.Wanted whose objects, if they exist, are now in view.
func (e *Engine) Update(view *store.View, changes []store.Change, arrived ...Key) *Diff {
	e.world, e.revision = view, uint32(view.Revision())
	d := &Diff{changes: map[string]any{}, Computed: map[string]int{}, Changed: map[string]int{}}
	for _, c := range changes {
		for _, k := range c.Keys {
			e.column(c.Table, k.Index).changed(k.Key, true)
		}
	}
	e.arrive(arrived)
	for _, l := range e.layers {
		l.update(d)
	}
	d.Wanted, d.Unwanted = e.demand.settle()
	return d
}

// Rows counts the rows computed since New. Any goroutine may call it.
func (e *Engine) Rows() uint64 { return e.rows.Load() }

// Reader reads the store and earlier tables for a Compute function, and records the reads.
type Reader struct {
	engine    *Engine
	layer     int
	remembers bool
	waits     bool // set by a read of a key that has not arrived, or of a waiting row without a value
}

// Reader returns a Reader of the current rows that records nothing.
func (e *Engine) Reader() *Reader { return &Reader{engine: e, layer: len(e.layers)} }

// Rows implements store.Reader.
func (r *Reader) Rows(table, index, key string) store.Rows {
	if r.remembers {
		c := r.engine.column(table, index)
		read(r, c, key)
		r.waits = r.waits || r.engine.demand.misses(c, key)
	}
	return r.engine.world.Rows(table, index, key)
}

func (r *Reader) check(table string, layer int) {
	if layer >= r.layer {
		panic(misuse(fmt.Sprintf("graph: table %q is read by one that was not declared after it", table)))
	}
}

// Work lists "table=changed/computed", most computed rows first.
func (d *Diff) Work() string {
	names := slices.SortedFunc(maps.Keys(d.Computed), func(a, b string) int {
		return cmp.Or(d.Computed[b]-d.Computed[a], strings.Compare(a, b))
	})
	var b strings.Builder
	for i, n := range names {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d/%d", n, d.Changed[n], d.Computed[n])
	}
	return b.String()
}
