package status

import (
	"encoding/binary"
	"fmt"
	"iter"
	"reflect"
	"strings"

	"github.com/hashicorp/go-memdb"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// The tables of the board.
const (
	reportTable   = "report"   // *entry
	followerTable = "follower" // *follower
	unseenTable   = "unseen"   // *unseen
	placeTable    = "place"    // *places
)

// Indexes. A key consists of strings with a NUL byte after each, so that keys sort as their parts do, and a list of leading parts is
// a prefix.
const (
	byID     = "id"     // of entries: owner, then rank and instance of the source. A walk meets objects in order, the winning source last.
	bySource = "source" // of entries that Replace stored: source, then owner
	byPrefix = "_prefix"
)

// entry is the newest report of one source about one object. Entries are immutable.
type entry struct {
	source string
	whole  bool // Replace stored it
	report report.Report
}

// follower is a Feed's registration.
type follower struct{ id uint64 }

// unseen is an object whose report has changed since a follower's last call of Next.
type unseen struct {
	follower uint64
	owner    report.Ref
}

// places is the one row of its table. It is replaced when objects may have moved within their files.
type places struct{}

func newDB() *memdb.MemDB {
	unique := func(name string, key func(row any) []byte) map[string]*memdb.IndexSchema {
		return map[string]*memdb.IndexSchema{name: {Name: name, Unique: true, Indexer: indexer{key}}}
	}
	entries := unique(byID, func(row any) []byte { e := row.(*entry); return entryKey(e.report.Owner, e.source) })
	// go-memdb takes about 450 bytes for each key. Translation, with the most reports by far, never calls Replace, so that its entries
	// are in one index only.
	entries[bySource] = &memdb.IndexSchema{Name: bySource, Unique: true, AllowMissing: true, Indexer: indexer{func(row any) []byte {
		e := row.(*entry)
		if !e.whole {
			return nil
		}
		return appendRef(key(e.source), e.report.Owner)
	}}}
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		reportTable:   {Name: reportTable, Indexes: entries},
		followerTable: {Name: followerTable, Indexes: unique(byID, func(row any) []byte { return idKey(row.(*follower).id) })},
		unseenTable: {Name: unseenTable, Indexes: unique(byID, func(row any) []byte {
			u := row.(*unseen)
			return appendRef(idKey(u.follower), u.owner)
		})},
		placeTable: {Name: placeTable, Indexes: unique(byID, func(any) []byte { return key("") })},
	}})
	if err != nil {
		panic(fmt.Sprintf("status: the schema of the board: %v", err)) // a constant
	}
	return db
}

// indexer makes the keys of an index; nil for a row that is not in it. The arguments of reads are keys already.
type indexer struct{ key func(row any) []byte }

// FromObject implements memdb.SingleIndexer.
func (ix indexer) FromObject(row any) (bool, []byte, error) {
	k := ix.key(row)
	return k != nil, k, nil
}

// FromArgs implements memdb.Indexer.
func (ix indexer) FromArgs(args ...any) ([]byte, error) { return args[0].([]byte), nil }

// PrefixFromArgs implements memdb.PrefixIndexer.
func (ix indexer) PrefixFromArgs(args ...any) ([]byte, error) { return args[0].([]byte), nil }

func key(parts ...string) []byte { return []byte(strings.Join(parts, "\x00") + "\x00") }

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// appendRef appends a reference in the order of report.Ref.Compare.
func appendRef(k []byte, ref report.Ref) []byte {
	for _, part := range []string{ref.Kind, ref.Namespace, ref.Name, ref.Group} {
		k = append(append(k, part...), 0)
	}
	return k
}

func entryKey(owner report.Ref, source string) []byte {
	place, instance := rank(source)
	return append(append(append(appendRef(nil, owner), byte(place)), instance...), 0)
}

// txn is a transaction on the board, with typed rows. memdb fails only for an unknown table or index, a mistake in this package.
type txn struct{ *memdb.Txn }

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("status: the board: %v", err))
	}
}

// walk iterates over the rows of a table whose key in an index begins with prefix, in the order of their keys.
func walk[Row any](t txn, table, index string, prefix []byte) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		rows, err := t.Get(table, index+byPrefix, prefix)
		must(err)
		for row := rows.Next(); row != nil && yield(row.(*Row)); row = rows.Next() {
		}
	}
}

// watch adds the channels that close when List would return something else to ws.
func (t txn) watch(ws WatchSet) {
	for _, table := range []string{reportTable, placeTable} {
		rows, err := t.Get(table, byID+byPrefix, []byte(nil))
		must(err)
		ws.Add(rows.WatchCh())
	}
}

// insert stores an entry, unless an equal one is there, and returns whether it did.
func (t txn) insert(e *entry) bool {
	old, err := t.First(reportTable, byID, entryKey(e.report.Owner, e.source))
	must(err)
	if old != nil && reflect.DeepEqual(old.(*entry).report, e.report) {
		return false
	}
	must(t.Insert(reportTable, e))
	return true
}
