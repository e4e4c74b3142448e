package registry

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/hashicorp/go-memdb"
)

// The tables.
const (
	memberTable    = "member"    // *Member
	exportTable    = "export"    // *Export
	placementTable = "placement" // *Placement
	leaseTable     = "lease"     // *lease
	countTable     = "count"     // *Count
)

// Indexes. A key consists of strings with a NUL byte after each, so that keys sort as their parts do, and a list of leading parts is a
// prefix.
const (
	byID       = "id"
	bySource   = "source"   // members
	byState    = "state"    // members
	byPool     = "pool"     // exports and placements
	byAddress  = "address"  // exports, by each address that requests for them are sent to
	byDraining = "draining" // exports that are withdrawn, the first to be collected first
	byFailed   = "failed"   // placements that have failed
	byDeadline = "deadline" // leases, the first to expire first
	byPrefix   = "_prefix"
)

func schema() *memdb.DBSchema {
	table := func(name string, indexes ...*memdb.IndexSchema) *memdb.TableSchema {
		t := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}
		for _, ix := range indexes {
			t.Indexes[ix.Name] = ix
		}
		return t
	}
	unique := func(key func(row any) []byte) *memdb.IndexSchema {
		return &memdb.IndexSchema{Name: byID, Unique: true, Indexer: indexer{key}}
	}
	index := func(name string, key func(row any) []byte) *memdb.IndexSchema {
		return &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: indexer{key}}
	}
	tables := []*memdb.TableSchema{
		table(memberTable,
			unique(func(row any) []byte { return key(row.(*Member).Name) }),
			index(bySource, func(row any) []byte { return key(row.(*Member).Source) }),
			index(byState, func(row any) []byte { return key(string(row.(*Member).State)) }),
		),
		table(exportTable,
			unique(func(row any) []byte { e := row.(*Export); return exportKey(e.Cluster, e.Pool) }),
			index(byPool, func(row any) []byte { return poolKey(row.(*Export).Pool) }),
			&memdb.IndexSchema{Name: byAddress, AllowMissing: true, Indexer: multiIndexer{func(row any) (keys [][]byte) {
				for _, a := range row.(*Export).addresses() {
					keys = append(keys, key(a))
				}
				return keys
			}}},
			index(byDraining, func(row any) []byte {
				if e := row.(*Export); e.withdrawn {
					return deadlineKey(e.collect)
				}
				return nil
			}),
		),
		table(placementTable,
			unique(func(row any) []byte { p := row.(*Placement); return exportKey(p.Member, p.Pool) }),
			index(byPool, func(row any) []byte { return poolKey(row.(*Placement).Pool) }),
			index(byFailed, func(row any) []byte {
				if p := row.(*Placement); p.Reason != "" {
					return key(p.Member)
				}
				return nil
			}),
		),
		table(leaseTable,
			unique(func(row any) []byte { return key(row.(*lease).cluster) }),
			index(byDeadline, func(row any) []byte { return deadlineKey(row.(*lease).deadline) }),
		),
	}
	tables = append(tables, table(countTable, unique(func(row any) []byte { return key(row.(*Count).Cluster) })))
	out := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range tables {
		out.Tables[t.Name] = t
	}
	return out
}

// indexer makes the key of a row; nil for one that is not in the index. The arguments of reads are keys already.
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

// multiIndexer is indexer for rows with several keys.
type multiIndexer struct{ keys func(row any) [][]byte }

// FromObject implements memdb.MultiIndexer.
func (ix multiIndexer) FromObject(row any) (bool, [][]byte, error) {
	k := ix.keys(row)
	return len(k) > 0, k, nil
}

// FromArgs implements memdb.Indexer.
func (ix multiIndexer) FromArgs(args ...any) ([]byte, error) { return args[0].([]byte), nil }

// PrefixFromArgs implements memdb.PrefixIndexer.
func (ix multiIndexer) PrefixFromArgs(args ...any) ([]byte, error) { return args[0].([]byte), nil }

func key(parts ...string) []byte { return []byte(strings.Join(parts, "\x00") + "\x00") }

func poolKey(p Pool) []byte { return key(p.Namespace, p.Name) }

func exportKey(cluster string, p Pool) []byte { return key(cluster, p.Namespace, p.Name) }

// deadlineKey orders durations since the registry was made, which are not negative.
func deadlineKey(d time.Duration) []byte { return binary.BigEndian.AppendUint64(nil, uint64(d)) }

// txn is a transaction with typed rows. memdb fails only for an unknown table or index, a mistake in this package.
type txn struct{ *memdb.Txn }

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("registry: %v", err))
	}
}

// first returns the row of a table with a key; nil if there is none.
func first[Row any](t txn, table string, key []byte) *Row {
	row, err := t.First(table, byID, key)
	must(err)
	if row == nil {
		return nil
	}
	return row.(*Row)
}

// walk iterates over the rows of a table whose key in an index begins with prefix, in the order of their keys. ws, which may be nil, fires
// when the walk would meet other rows. The table must not be changed meanwhile.
func walk[Row any](t txn, ws WatchSet, table, index string, prefix []byte) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		rows, err := t.Get(table, index+byPrefix, prefix)
		must(err)
		ws.Add(rows.WatchCh())
		for row := rows.Next(); row != nil && yield(row.(*Row)); row = rows.Next() {
		}
	}
}

// until iterates over the rows of a table whose deadline in an index is not after now, the first deadline first. The table must not be
// changed meanwhile.
func until[Row any](t txn, table, index string, deadline func(*Row) time.Duration, now time.Duration) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		rows, err := t.LowerBound(table, index, deadlineKey(0))
		must(err)
		for row := rows.Next(); row != nil && deadline(row.(*Row)) <= now && yield(row.(*Row)); row = rows.Next() {
		}
	}
}
