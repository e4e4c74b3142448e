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
	demanded map[string]bool // keyed by table; true if rows wait for its keys
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

// Diff reports what an Update changed and computed.
type Diff struct {
	changes map[string]any
	// Computed and Changed count rows by table.
	Computed, Changed map[string]int
	// Wanted and Unwanted list the keys of Demand's and Follow's tables that rows began and ceased
	// to read.
	Wanted, Unwanted []Key
	Panics           []*Panic
	Recovered        []Recovered
}

// Update brings every row up to date with view. The parameter `changes` must list all differences
// to the last view; a new engine needs store.Everything. The parameter `arrived` lists wanted keys
// whose objects, if they exist, are in view now.
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

// Reader gives a Compute function access to the store and to earlier tables, and records its reads.
type Reader struct {
	engine    *Engine
	layer     int
	remembers bool
	waits     bool // Compute read a key that has not arrived, or a waiting row without a value
}

// Reader reads the engine's current rows without recording.
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

// Work lists how many rows each table computed and changed, in descending order.
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
