package status

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/hashicorp/go-memdb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

const (
	reportTable   = "report"   // its rows are *entry
	followerTable = "follower" // its rows are *follower
	unseenTable   = "unseen"   // its rows are *unseen
	placeTable    = "place"    // its row is *places
)

// bySource is the second index of reportTable. In the first index, rows.ByID, the key of an entry
// is the owner, then the rank and instance of the source. So a walk visits the winning source of
// each object last.
const bySource = "source" // its key is the source, then the owner; only for entries of Replace

// entry is the newest report of one source about one object. It is immutable.
type entry struct {
	source string
	whole  bool // stored by Replace
	report report.Report
}

type follower struct{ id uint64 }

type unseen struct {
	follower uint64
	owner    report.Ref
}

// places is the only row of placeTable. Its replacement means that objects may have moved to other
// lines of their files.
type places struct{}

func newDB() *memdb.MemDB {
	unique := func(name string, key func(row any) []byte) map[string]*memdb.IndexSchema {
		return map[string]*memdb.IndexSchema{name: {Name: name, Unique: true, Indexer: rows.Index{Key: key}}}
	}
	entries := unique(rows.ByID, func(row any) []byte { e := row.(*entry); return entryKey(e.report.Owner, e.source) })
	// Only entries of Replace are in this index, because go-memdb takes about 450 bytes for each
	// key. Translation has by far the most reports, and never calls Replace.
	entries[bySource] = &memdb.IndexSchema{Name: bySource, Unique: true, AllowMissing: true,
		Indexer: rows.Index{Key: func(row any) []byte {
			e := row.(*entry)
			if !e.whole {
				return nil
			}
			return appendRef(rows.Key(e.source), e.report.Owner)
		}}}
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		reportTable: {Name: reportTable, Indexes: entries},
		followerTable: {
			Name: followerTable, Indexes: unique(rows.ByID, func(row any) []byte { return idKey(row.(*follower).id) }),
		},
		unseenTable: {Name: unseenTable, Indexes: unique(rows.ByID, func(row any) []byte {
			u := row.(*unseen)
			return appendRef(idKey(u.follower), u.owner)
		})},
		placeTable: {Name: placeTable, Indexes: unique(rows.ByID, func(any) []byte { return rows.Key("") })},
	}})
	if err != nil {
		panic(fmt.Sprintf("status: the schema of the board: %v", err))
	}
	return db
}

func idKey(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

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

type txn struct{ *memdb.Txn }

func (t txn) watch(ws WatchSet) {
	for _, table := range []string{reportTable, placeTable} {
		rows.Watch(t, ws, table)
	}
}

func (t txn) insert(e *entry) bool {
	e.report = public(e.report)
	old, err := t.First(reportTable, rows.ByID, entryKey(e.report.Owner, e.source))
	rows.Must(err)
	if old != nil && reflect.DeepEqual(old.(*entry).report, e.report) {
		return false
	}
	rows.Must(t.Insert(reportTable, e))
	return true
}
