package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
)

// node is one row, with what it has read.
type node struct {
	layer int
	key   string
	value any
	exist bool // Compute gave a value
	keys  []indexKey
	reads []*subject
}

// rows holds one table's rows.
type rows struct {
	decl     Declared
	layer    int
	byID     *column
	byAll    *column
	declared []*column // the further indexes
	nodes    map[string]*node
	existing []*node              // sorted by key
	index    []map[string][]*node // of declared; sorted by key; no empty lists
}

// Engine holds the rows of all tables. It is not safe for concurrent use.
type Engine struct {
	layers   []*rows
	byName   map[string]*rows
	columns  map[[2]string]*column // by table and index
	subjects map[dependency]*subject
	demanded map[string]struct{} // tables of the store
	demand   *demand
	world    *store.View

	computation uint64     // counts up
	seen        []*subject // what the one under way has read, each once
}

// New makes an empty engine. The tables' order is the order of computation.
func New(tables ...Declared) *Engine {
	e := &Engine{byName: map[string]*rows{}, columns: map[[2]string]*column{}, subjects: map[dependency]*subject{}, demanded: map[string]struct{}{}, demand: newDemand()}
	for i, t := range tables {
		r := &rows{decl: t, layer: i, byID: e.column(t.name(), ByID), byAll: e.column(t.name(), ByAll), nodes: map[string]*node{}}
		for _, name := range t.indexes() {
			r.declared = append(r.declared, e.column(t.name(), name))
			r.index = append(r.index, map[string][]*node{})
		}
		if e.byName[t.name()] != nil {
			panic("graph: table declared twice: " + t.name())
		}
		e.layers = append(e.layers, r)
		e.byName[t.name()] = r
		for _, s := range t.sources() {
			c := e.column(s.Table, s.Index)
			c.layers = append(c.layers, i)
		}
	}
	return e
}

// Diff is what an Update changed, and how much work it was.
type Diff struct {
	tables map[string][]change
	// Computed counts the rows that were computed, Changed those that came out different, by table.
	Computed, Changed map[string]int
	// Wanted are keys of the tables that Demand named which some row reads now and none did before; Unwanted, the other way
	// around. Both are sorted.
	Wanted, Unwanted []Key
}

type change struct {
	key      string
	old, new any
	had, has bool
}

// Update brings every row up to date with view. changes must name everything that is different from the view of the
// last Update; for a new engine that is store.Everything.
func (e *Engine) Update(view *store.View, changes []store.Change) *Diff {
	e.world = view
	d := &Diff{tables: map[string][]change{}, Computed: map[string]int{}, Changed: map[string]int{}}
	dirty := make([]map[string]struct{}, len(e.layers))
	for _, c := range changes {
		for _, k := range c.Keys {
			e.touch(dirty, dependency{e.column(c.Table, k.Index), k.Key}, true)
		}
	}
	for i, layer := range e.layers {
		for _, key := range slices.Sorted(maps.Keys(dirty[i])) {
			d.Computed[layer.decl.name()]++
			c, touched := e.recompute(layer, key)
			if c == nil {
				continue
			}
			d.Changed[layer.decl.name()]++
			d.tables[layer.decl.name()] = append(d.tables[layer.decl.name()], *c)
			for _, k := range touched {
				e.touch(dirty, k.dependency, k.moved)
			}
		}
	}
	d.Wanted, d.Unwanted = e.demand.settle(e.isRead)
	return d
}

// touch marks everything dirty that has read dep and, if the key may have come or gone, whose existence hangs on it.
func (e *Engine) touch(dirty []map[string]struct{}, dep dependency, moved bool) {
	mark := func(layer int, key string) {
		if dirty[layer] == nil {
			dirty[layer] = map[string]struct{}{}
		}
		dirty[layer][key] = struct{}{}
	}
	if s := e.subjects[dep]; s != nil {
		s.readers.each(func(n *node) { mark(n.layer, n.key) })
	}
	if !moved {
		return
	}
	for _, layer := range dep.layers {
		mark(layer, dep.key)
	}
}

// touched is an index key of a row that changed.
type touched struct {
	dependency
	moved bool // only the old or only the new value has it
}

// touched lists the index keys of a change's old and new value. A key that both have cannot have come or gone: rows that
// exist because of it stay, and are computed again only if they have read it. (Else each change of a route computed its
// clusters and their endpoints again.)
func (t *rows) touched(c *change, old, now []indexKey) []touched {
	out := make([]touched, 0, 2+len(old)+len(now))
	moved := c.had != c.has
	out = append(out, touched{dependency{t.byID, c.key}, moved}, touched{dependency{t.byAll, ""}, moved})
	for _, k := range old {
		out = append(out, touched{dependency{t.declared[k.index], k.key}, !slices.Contains(now, k)})
	}
	for _, k := range now {
		if !slices.Contains(old, k) {
			out = append(out, touched{dependency{t.declared[k.index], k.key}, true})
		}
	}
	return out
}

// recompute brings one row up to date. It returns nil if nothing changed, else the change and the index keys that the
// old and the new value have.
func (e *Engine) recompute(layer *rows, key string) (*change, []touched) {
	n := layer.nodes[key]
	c := &change{key: key}
	if n != nil {
		c.old, c.had = n.value, n.exist
	}
	e.computation++
	e.seen = e.seen[:0]
	if !e.wanted(layer, key) {
		if n == nil {
			return nil, nil
		}
		e.forgetReads(n)
		delete(layer.nodes, key)
		old := n.keys
		layer.set(n, nil, false, nil)
		if !c.had {
			return nil, nil
		}
		return c, layer.touched(c, old, nil)
	}
	value, ok := layer.decl.compute(&Reader{engine: e, layer: layer.layer, remembers: true}, key)
	if n == nil {
		n = &node{layer: layer.layer, key: key}
		layer.nodes[key] = n
	}
	e.replaceReads(n)
	c.new, c.has = value, ok
	if c.had == ok && (!ok || layer.decl.equal(c.old, value)) {
		return nil, nil
	}
	old := n.keys
	var keys []indexKey
	if ok {
		keys = layer.decl.keys(key, value)
	}
	layer.set(n, value, ok, keys)
	return c, layer.touched(c, old, keys)
}

// wanted says whether some source still has the key.
func (e *Engine) wanted(layer *rows, key string) bool {
	for _, s := range layer.decl.sources() {
		if t := e.byName[s.Table]; t != nil {
			if len(t.list(e.column(s.Table, s.Index), key)) > 0 {
				return true
			}
		} else if e.world.Rows(s.Table, s.Index, key).Len() > 0 {
			return true
		}
	}
	return false
}

// list is the rows that have a key in an index, sorted by their own; they exist.
func (t *rows) list(c *column, key string) []*node {
	switch c {
	case t.byID:
		if n := t.nodes[key]; n != nil && n.exist {
			return []*node{n}
		}
		return nil
	case t.byAll:
		return t.existing
	}
	for i, d := range t.declared {
		if d == c {
			return t.index[i][key]
		}
	}
	panic(fmt.Sprintf("graph: table %q has no index %q", c.table, c.index))
}

// set gives a node another value and moves it to other index keys.
func (t *rows) set(n *node, value any, exist bool, keys []indexKey) {
	if n.exist && !exist {
		t.existing = without(t.existing, n)
	}
	if !n.exist && exist {
		t.existing = with(t.existing, n)
	}
	for _, k := range n.keys {
		if slices.Contains(keys, k) {
			continue
		}
		if list := without(t.index[k.index][k.key], n); len(list) > 0 {
			t.index[k.index][k.key] = list
		} else {
			delete(t.index[k.index], k.key)
		}
	}
	for _, k := range keys {
		t.index[k.index][k.key] = with(t.index[k.index][k.key], n)
	}
	n.value, n.exist, n.keys = value, exist, keys
}

// with is a sorted list with a node, which may be in it.
func with(list []*node, n *node) []*node {
	i, ok := find(list, n.key)
	if ok {
		return list
	}
	return slices.Insert(list, i, n)
}

// without is a sorted list without a node, which need not be in it.
func without(list []*node, n *node) []*node {
	if i, ok := find(list, n.key); ok {
		return slices.Delete(list, i, i+1)
	}
	return list
}

func find(list []*node, key string) (int, bool) {
	return slices.BinarySearchFunc(list, key, func(n *node, key string) int { return strings.Compare(n.key, key) })
}

// Reader is what a Compute function reads through. It implements store.Reader, and remembers.
type Reader struct {
	engine    *Engine
	layer     int
	remembers bool
}

// Reader reads the engine's rows as they stand, without leaving a trace: for output and explanations.
func (e *Engine) Reader() *Reader { return &Reader{engine: e, layer: len(e.layers)} }

// Rows implements store.Reader.
func (r *Reader) Rows(table, index, key string) store.Rows {
	r.remember(table, index, key)
	return r.engine.world.Rows(table, index, key)
}

func (r *Reader) results(table, index, key string) []*node {
	return r.behind(table).list(r.remember(table, index, key), key)
}

// behind is a table that may be read.
func (r *Reader) behind(table string) *rows {
	t := r.engine.byName[table]
	if t == nil || t.layer >= r.layer {
		panic(fmt.Sprintf("graph: table %q is read by one that is not behind it", table))
	}
	return t
}

func (r *Reader) remember(table, index, key string) *column {
	c := r.engine.column(table, index)
	if r.remembers {
		r.engine.read(dependency{c, key})
	}
	return c
}

// Work lists how many rows each table computed and changed, the most first: for logs and debug pages.
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
