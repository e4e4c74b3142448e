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
	byDeadline = "deadline"
)

func schema() *memdb.DBSchema {
	out := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	table := func(name string, indexes ...*memdb.IndexSchema) {
		t := &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{}}
		for _, ix := range indexes {
			t.Indexes[ix.Name] = ix
		}
		out.Tables[name] = t
	}
	table(memberTable,
		index(rows.ByID, func(m *Member) []byte { return rows.Key(m.Name) }),
		index(byState, func(m *Member) []byte { return rows.Key(string(m.State)) }),
	)
	table(exportTable,
		index(rows.ByID, func(e *Export) []byte { return exportKey(e.Cluster, e.Pool) }),
		index(byPool, func(e *Export) []byte { return poolKey(e.Pool) }),
		index(byDraining, func(e *Export) []byte {
			if e.withdrawn {
				return deadlineKey(e.collect)
			}
			return nil
		}),
	)
	table(placementTable,
		index(rows.ByID, func(p *Placement) []byte { return exportKey(p.Member, p.Pool) }),
		index(byPool, func(p *Placement) []byte { return poolKey(p.Pool) }),
	)
	table(leaseTable,
		index(rows.ByID, func(l *lease) []byte { return rows.Key(l.cluster) }),
		index(byDeadline, func(l *lease) []byte { return deadlineKey(l.deadline) }),
	)
	table(countTable, index(rows.ByID, func(c *Count) []byte { return rows.Key(c.Cluster) }))
	return out
}

func index[Row any](name string, key func(row *Row) []byte) *memdb.IndexSchema {
	return &memdb.IndexSchema{Name: name, Unique: name == rows.ByID, AllowMissing: name != rows.ByID,
		Indexer: rows.Index{Key: func(row any) []byte { return key(row.(*Row)) }}}
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

func (t txn) member(name string) *Member { return rows.First[Member](t, memberTable, rows.Key(name)) }

func (t txn) allMembers(ws WatchSet) iter.Seq[*Member] {
	return rows.Walk[Member](t, ws, memberTable, rows.ByID, nil)
}

func (t txn) export(cluster string, p objectid.Pool) *Export {
	return rows.First[Export](t, exportTable, exportKey(cluster, p))
}

func (t txn) exportsOf(cluster string) iter.Seq[*Export] {
	return rows.Walk[Export](t, nil, exportTable, rows.ByID, rows.Key(cluster))
}

func (r *Registry) read() txn { return txn{Txn: r.db.Txn(false), exports: r.cfg.Exports} }

// until iterates over the rows that end at or before now, in the order of their ends. The loop must
// not change the table.
func until[Row interface{ end() time.Duration }](t txn, table, index string, now time.Duration) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		list, err := t.LowerBound(table, index, deadlineKey(0))
		rows.Must(err)
		for row := list.Next(); row != nil && row.(Row).end() <= now && yield(row.(Row)); row = list.Next() {
		}
	}
}
