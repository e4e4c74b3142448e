package store

import (
	"maps"

	"github.com/tidwall/btree"
)

type entry struct {
	key, id string
	obj     any
}

func less(a, b entry) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return a.id < b.id
}

// tree is one index: a copy-on-write B-tree. A copy shares all unmodified nodes with the original.
type tree = btree.BTreeG[entry]

// degree is the degree of the B-trees. A write copies a node of up to 2*degree-1 entries on each
// level, so a higher degree makes writes more expensive (BenchmarkIndex).
const degree = 8

// newTree makes a tree without locks: Store.mu orders the writers, and each reader has a copy.
func newTree() *tree {
	return btree.NewBTreeGOptions(less, btree.Options{Degree: degree, NoLocks: true})
}

// trees has the tree of each index except ByAll, whose reads the tree of ByID serves.
type trees map[[2]string]*tree // keyed by table and index

func newTrees() trees {
	all := trees{}
	for _, t := range Tables() {
		for _, index := range t.indexNames() {
			all[[2]string{t.Kind(), index}] = newTree()
		}
	}
	return all
}

func (t trees) put(table, id string, obj any, keys []IndexKey) {
	for _, k := range keys {
		if k.Index != ByAll {
			t[[2]string{table, k.Index}].Set(entry{k.Key, id, obj})
		}
	}
}

func (t trees) remove(table, id string, keys []IndexKey) {
	for _, k := range keys {
		if k.Index != ByAll {
			t[[2]string{table, k.Index}].Delete(entry{key: k.Key, id: id})
		}
	}
}

func (t trees) get(table, id string) any {
	e, _ := t[[2]string{table, ByID}].Get(entry{key: id, id: id})
	return e.obj
}

func (t trees) list(table, index, key string) (out []any, ok bool) {
	stored := index
	if index == ByAll {
		stored = ByID
	}
	tree, ok := t[[2]string{table, stored}]
	if !ok {
		return nil, false
	}
	switch index {
	case ByID:
		if e, found := tree.Get(entry{key: key, id: key}); found {
			out = []any{e.obj}
		}
	case ByAll:
		out = make([]any, 0, tree.Len())
		t.each(table, func(e entry) { out = append(out, e.obj) })
	default:
		tree.Ascend(entry{key: key}, func(e entry) bool {
			if e.key == key {
				out = append(out, e.obj)
			}
			return e.key == key
		})
	}
	return out, true
}

func (t trees) each(table string, f func(entry)) {
	t[[2]string{table, ByID}].Scan(func(e entry) bool {
		f(e)
		return true
	})
}

func (t trees) after(before trees, changed map[string]struct{}) trees {
	now := maps.Clone(before)
	for name, tree := range t {
		if _, ok := changed[name[0]]; ok || now[name] == nil {
			now[name] = tree.Copy()
		}
	}
	return now
}
