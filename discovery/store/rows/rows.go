package rows

import (
	"fmt"
	"iter"

	"github.com/hashicorp/go-memdb"
)

// ByID names the index by primary key, which every table has.
const ByID = "id"

// byPrefix follows an index's name in a read by prefix (go-memdb).
const byPrefix = "_prefix"

// Index is an index by Key. Key returns nil if the index omits the row.
type Index struct{ Key func(row any) []byte }

// FromObject implements memdb.SingleIndexer.
func (ix Index) FromObject(row any) (bool, []byte, error) {
	k := ix.Key(row)
	return k != nil, k, nil
}

// FromArgs implements memdb.Indexer.
func (ix Index) FromArgs(args ...any) ([]byte, error) { return args[0].([]byte), nil }

// PrefixFromArgs implements memdb.PrefixIndexer.
func (ix Index) PrefixFromArgs(args ...any) ([]byte, error) { return args[0].([]byte), nil }

// Key returns the key with these parts.
func Key(parts ...string) []byte {
	size := len(parts)
	for _, p := range parts {
		size += len(p)
	}
	key := make([]byte, 0, size)
	for _, p := range parts {
		key = append(append(key, p...), 0)
	}
	return key
}

// Must panics if err is not nil.
func Must(err error) {
	if err != nil {
		panic(fmt.Sprintf("a table in memory: %v", err))
	}
}

// Reader reads in a transaction. *memdb.Txn implements it.
type Reader interface {
	First(table, index string, args ...any) (any, error)
	Get(table, index string, args ...any) (memdb.ResultIterator, error)
}

// First returns the row with a key, or nil.
func First[Row any](t Reader, table string, key []byte) *Row {
	row, err := t.First(table, ByID, key)
	Must(err)
	if row == nil {
		return nil
	}
	return row.(*Row)
}

// Walk iterates over the rows whose key in an index begins with prefix, in the order of their keys.
// ws, which may be nil, fires when one of these rows changes. The transaction must not change the
// table during the walk.
func Walk[Row any](t Reader, ws memdb.WatchSet, table, index string, prefix []byte) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		list, err := t.Get(table, index+byPrefix, prefix)
		Must(err)
		ws.Add(list.WatchCh())
		for row := list.Next(); row != nil && yield(row.(*Row)); row = list.Next() {
		}
	}
}

// Watch adds to ws a channel that closes when any row of a table changes.
func Watch(t Reader, ws memdb.WatchSet, table string) {
	list, err := t.Get(table, ByID+byPrefix, []byte(nil))
	Must(err)
	ws.Add(list.WatchCh())
}
