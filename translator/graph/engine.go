package graph

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
)

// dependency is one thing that can be read: a key of an index of a table, of the store or of results.
type dependency struct{ table, index, key string }

// node is one row, with what it has read.
type node struct {
	layer int
	key   string
	value any
	exist bool // Compute gave a value
	keys  []indexKey
	reads []dependency
}

// rows holds one table's rows.
type rows struct {
	decl    Declared
	layer   int
	indexes []string // of decl
	nodes   map[string]*node
	index   map[indexKey][]*node // sorted by key; no empty lists
}

// Engine holds the rows of all tables. It is not safe for concurrent use.
type Engine struct {
	layers  []*rows
	byName  map[string]*rows
	readers map[dependency]map[*node]struct{}
	sources map[Source][]int // layers that have it as a source
	world   *store.View
	demand  *demand
}

// New makes an empty engine. The tables' order is the order of computation.
func New(tables ...Declared) *Engine {
	e := &Engine{
		byName:  map[string]*rows{},
		readers: map[dependency]map[*node]struct{}{},
		sources: map[Source][]int{},
		demand:  newDemand(),
	}
	for i, t := range tables {
		r := &rows{decl: t, layer: i, indexes: t.indexes(), nodes: map[string]*node{}, index: map[indexKey][]*node{}}
		if e.byName[t.name()] != nil {
			panic("graph: table declared twice: " + t.name())
		}
		e.layers = append(e.layers, r)
		e.byName[t.name()] = r
		for _, s := range t.sources() {
			e.sources[s] = append(e.sources[s], i)
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
			e.touch(dirty, dependency{c.Table, k.Index, k.Key}, true)
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
				e.touch(dirty, dependency{layer.decl.name(), k.index, k.key}, k.moved)
			}
		}
	}
	d.Wanted, d.Unwanted = e.demand.settle(func(dep dependency) bool { return len(e.readers[dep]) > 0 })
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
	for n := range e.readers[dep] {
		mark(n.layer, n.key)
	}
	if !moved {
		return
	}
	for _, layer := range e.sources[Source{dep.table, dep.index}] {
		mark(layer, dep.key)
	}
}

// touchedKey is an index key of a row that changed.
type touchedKey struct {
	indexKey
	moved bool // only the old or only the new value has it
}

// touch lists the index keys of an old and a new value. A key that both have cannot have come or gone: rows that exist
// because of it stay, and are computed again only if they have read it. (Else each change of a route computed its
// clusters and their endpoints again.)
func touch(old, now []indexKey) []touchedKey {
	out := make([]touchedKey, 0, len(old)+len(now))
	for _, k := range old {
		out = append(out, touchedKey{k, !slices.Contains(now, k)})
	}
	for _, k := range now {
		if !slices.Contains(old, k) {
			out = append(out, touchedKey{k, true})
		}
	}
	return out
}

// recompute brings one row up to date. It returns nil if nothing changed, else the change and the index keys that the
// old and the new value have.
func (e *Engine) recompute(layer *rows, key string) (*change, []touchedKey) {
	n := layer.nodes[key]
	c := &change{key: key}
	if n != nil {
		c.old, c.had = n.value, n.exist
	}
	if !e.wanted(layer, key) {
		if n == nil {
			return nil, nil
		}
		e.forgetReads(n)
		delete(layer.nodes, key)
		layer.reindex(n, nil)
		if !c.had {
			return nil, nil
		}
		return c, touch(n.keys, nil)
	}
	r := &Reader{engine: e, layer: layer.layer, seen: map[dependency]struct{}{}}
	value, ok := layer.decl.compute(r, key)
	if n == nil {
		n = &node{layer: layer.layer, key: key}
		layer.nodes[key] = n
	}
	e.replaceReads(n, r.seen)
	c.new, c.has = value, ok
	if c.had == ok && (!ok || layer.decl.equal(c.old, value)) {
		return nil, nil
	}
	old := n.keys
	var keys []indexKey
	if ok {
		keys = layer.decl.keys(key, value)
	}
	layer.reindex(n, keys)
	n.value, n.exist, n.keys = value, ok, keys
	return c, touch(old, keys)
}

// wanted says whether some source still has the key.
func (e *Engine) wanted(layer *rows, key string) bool {
	for _, s := range layer.decl.sources() {
		if t := e.byName[s.Table]; t != nil {
			if len(t.index[indexKey{s.Index, key}]) > 0 {
				return true
			}
		} else if e.world.Rows(s.Table, s.Index, key).Len() > 0 {
			return true
		}
	}
	return false
}

func (e *Engine) forgetReads(n *node) {
	for _, dep := range n.reads {
		e.demand.touch(dep)
		delete(e.readers[dep], n)
		if len(e.readers[dep]) == 0 {
			delete(e.readers, dep)
		}
	}
	n.reads = nil
}

func (e *Engine) replaceReads(n *node, seen map[dependency]struct{}) {
	same := len(n.reads) == len(seen)
	for _, dep := range n.reads {
		if _, ok := seen[dep]; !ok {
			same = false
			break
		}
	}
	if same {
		return
	}
	e.forgetReads(n)
	n.reads = make([]dependency, 0, len(seen))
	for dep := range seen {
		n.reads = append(n.reads, dep)
		e.demand.touch(dep)
		set := e.readers[dep]
		if set == nil {
			set = map[*node]struct{}{}
			e.readers[dep] = set
		}
		set[n] = struct{}{}
	}
}

// reindex moves a node from its present index keys to others.
func (t *rows) reindex(n *node, keys []indexKey) {
	for _, k := range n.keys {
		if slices.Contains(keys, k) {
			continue
		}
		list := t.index[k]
		if i, ok := find(list, n.key); ok {
			list = slices.Delete(list, i, i+1)
		}
		if len(list) == 0 {
			delete(t.index, k)
		} else {
			t.index[k] = list
		}
	}
	for _, k := range keys {
		list := t.index[k]
		if i, ok := find(list, n.key); !ok {
			t.index[k] = slices.Insert(list, i, n)
		}
	}
}

func find(list []*node, key string) (int, bool) {
	return slices.BinarySearchFunc(list, key, func(n *node, key string) int { return strings.Compare(n.key, key) })
}

// Reader is what a Compute function reads through. It implements store.Reader, and remembers.
type Reader struct {
	engine *Engine
	layer  int
	seen   map[dependency]struct{} // nil: nobody wants to know
}

// Reader reads the engine's rows as they stand, without leaving a trace: for output and explanations.
func (e *Engine) Reader() *Reader { return &Reader{engine: e, layer: len(e.layers)} }

// Rows implements store.Reader.
func (r *Reader) Rows(table, index, key string) store.Rows {
	r.remember(table, index, key)
	return r.engine.world.Rows(table, index, key)
}

func (r *Reader) results(table, index, key string) []*node {
	t := r.engine.byName[table]
	if t == nil || t.layer >= r.layer {
		panic(fmt.Sprintf("graph: table %q is read by one that is not behind it", table))
	}
	if !slices.Contains(t.indexes, index) {
		panic(fmt.Sprintf("graph: table %q has no index %q", table, index))
	}
	r.remember(table, index, key)
	return t.index[indexKey{index, key}]
}

func (r *Reader) remember(table, index, key string) {
	if r.seen != nil {
		r.seen[dependency{table, index, key}] = struct{}{}
	}
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
