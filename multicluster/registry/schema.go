package registry

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

const (
	memberTable    = "member"
	exportTable    = "export"
	placementTable = "placement"
	leaseTable     = "lease"
	countTable     = "count"
)

const (
	byState    = "state"
	byPool     = "pool"
	byDraining = "draining"
	byFailed   = "failed"
	byDeadline = "deadline"
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
		return &memdb.IndexSchema{Name: rows.ByID, Unique: true, Indexer: rows.Index{Key: key}}
	}
	index := func(name string, key func(row any) []byte) *memdb.IndexSchema {
		return &memdb.IndexSchema{Name: name, AllowMissing: true, Indexer: rows.Index{Key: key}}
	}
	tables := []*memdb.TableSchema{
		table(memberTable,
			unique(func(row any) []byte { return rows.Key(row.(*Member).Name) }),
			index(byState, func(row any) []byte { return rows.Key(string(row.(*Member).State)) }),
		),
		table(exportTable,
			unique(func(row any) []byte { e := row.(*Export); return exportKey(e.Cluster, e.Pool) }),
			index(byPool, func(row any) []byte { return poolKey(row.(*Export).Pool) }),
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
					return rows.Key(p.Member)
				}
				return nil
			}),
		),
		table(leaseTable,
			unique(func(row any) []byte { return rows.Key(row.(*lease).cluster) }),
			index(byDeadline, func(row any) []byte { return deadlineKey(row.(*lease).deadline) }),
		),
	}
	tables = append(tables, table(countTable, unique(func(row any) []byte { return rows.Key(row.(*Count).Cluster) })))
	out := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range tables {
		out.Tables[t.Name] = t
	}
	return out
}

func poolKey(p objectid.Pool) []byte { return rows.Key(p.Namespace, p.Name) }

func exportKey(cluster string, p objectid.Pool) []byte { return rows.Key(cluster, p.Namespace, p.Name) }

// deadlineKey returns an index key that sorts like d. d must not be negative.
func deadlineKey(d time.Duration) []byte { return binary.BigEndian.AppendUint64(nil, uint64(d)) }

type txn struct {
	*memdb.Txn
	exports int
	counts  map[string]Count
	members *int
}

func (r *Registry) read() txn { return txn{Txn: r.db.Txn(false), exports: r.cfg.Exports} }

// until iterates over the rows whose deadline is at or before now, in the order of the index. The
// loop must not change the table.
func until[Row any](t txn, table, index string, deadline func(*Row) time.Duration, now time.Duration) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		list, err := t.LowerBound(table, index, deadlineKey(0))
		rows.Must(err)
		for row := list.Next(); row != nil && deadline(row.(*Row)) <= now && yield(row.(*Row)); row = list.Next() {
		}
	}
}
