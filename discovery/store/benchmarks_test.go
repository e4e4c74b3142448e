package store

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hashicorp/go-memdb"
)

// index is an implementation of one index of a table.
type index interface {
	set(e entry)
	commit() // makes a snapshot, which later writes must not modify
	get(key string) bool
}

type treeIndex struct{ now, view *tree }

func (x *treeIndex) set(e entry) { x.now.Set(e) }

func (x *treeIndex) commit() { x.view = x.now.Copy() }

func (x *treeIndex) get(key string) bool {
	_, ok := x.view.Get(entry{key: key, id: key})
	return ok
}

// memdbIndex is a table of go-memdb with a primary index only.
type memdbIndex struct {
	db  *memdb.MemDB
	txn *memdb.Txn // nil between commits
}

func newMemdbIndex(b *testing.B) *memdbIndex {
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		"table": {
			Name: "table", Indexes: map[string]*memdb.IndexSchema{
				"id": {Name: "id", Unique: true, Indexer: keyIndexer{}},
			},
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	return &memdbIndex{db: db}
}

func (x *memdbIndex) set(e entry) {
	if x.txn == nil {
		x.txn = x.db.Txn(true)
	}
	if err := x.txn.Insert("table", e); err != nil {
		panic(err)
	}
}

func (x *memdbIndex) commit() {
	x.txn.Commit()
	x.txn = nil
}

func (x *memdbIndex) get(key string) bool {
	row, err := x.db.Txn(false).First("table", "id", key)
	return err == nil && row != nil
}

type keyIndexer struct{}

func (keyIndexer) FromObject(row any) (bool, []byte, error) {
	return true, []byte(row.(entry).key + "\x00"), nil
}

func (keyIndexer) FromArgs(args ...any) ([]byte, error) {
	return []byte(args[0].(string) + "\x00"), nil
}

// BenchmarkIndex compares the store's tree with go-memdb, which the status board uses. It measures
// the bytes for each of 5,000 keys (without key and object), one committed write, and one read.
func BenchmarkIndex(b *testing.B) {
	const n = 5000
	entries := make([]entry, n)
	for i := range entries {
		id := fmt.Sprintf("default/route-%04d", i*7919%n) // in no order
		entries[i] = entry{id, id, new(int)}
	}
	for _, c := range []struct {
		name string
		make func() index
	}{
		{"tree", func() index { return &treeIndex{now: newTree()} }},
		{"memdb", func() index { return newMemdbIndex(b) }},
	} {
		filled := func() index {
			x := c.make()
			for _, e := range entries {
				x.set(e)
			}
			x.commit()
			return x
		}
		b.Run(c.name+"/memory", func(b *testing.B) {
			var used uint64
			for b.Loop() {
				before := liveHeap()
				x := filled()
				used = liveHeap() - before
				runtime.KeepAlive(x)
			}
			b.ReportMetric(float64(used)/n, "B/key")
		})
		x := filled()
		b.Run(c.name+"/insert", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				x.set(entries[i%n])
				x.commit()
			}
		})
		b.Run(c.name+"/lookup", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if !x.get(entries[i%n].key) {
					b.Fatal("not found")
				}
			}
		})
	}
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
