package registry

import (
	"slices"
	"sync/atomic"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
)

// age holds Export.Since outside the row, so that a new age needs no new row. It changes only
// within a write transaction.
type age struct{ since atomic.Int64 }

func aged(since int64) *age {
	a := &age{}
	a.since.Store(since)
	return a
}

// Since returns when this cluster began to import the export, in microseconds of Unix time; 0: not
// imported, or not recorded.
func (e *Export) Since() int64 { return e.age.since.Load() }

// Imported records which exports this cluster begins and ceases to import. A begun export without
// an age gets the age since, in microseconds of Unix time; a ceased export loses its age. So ages
// count from the import, not from the announcement.
func (r *Registry) Imported(begun, ceased []RecordID) (since int64) {
	var dated []RecordID
	date := func(t txn, ids []RecordID, since int64) {
		for _, id := range ids {
			e := rows.First[Export](t, exportTable, exportKey(id.Cluster, id.Pool))
			if e != nil && (e.Since() == 0) != (since == 0) {
				e.age.since.Store(since)
				dated = append(dated, id)
			}
		}
	}
	r.date(func(t txn) {
		since = max(r.cfg.Now().UnixMicro(), r.latest.Load()+1)
		if date(t, ceased, 0); len(begun) > 0 {
			date(t, begun, since)
			r.latest.Store(since)
		}
	})
	r.MarkUnsaved(dated...)
	return since
}

// Newest returns the newest Export.Since so far.
func (r *Registry) Newest() int64 { return r.latest.Load() }

// Agree adopts the ages in the leader's records, because all processes must resolve names alike. It
// returns the pools to assemble again.
func (r *Registry) Agree(records []Record) (changed []objectid.Pool) {
	var dated []RecordID
	r.date(func(t txn) {
		for i := range records {
			rec := &records[i]
			r.latest.Store(max(r.latest.Load(), rec.Since))
			e := rows.First[Export](t, exportTable, exportKey(rec.Cluster, rec.Pool))
			if e != nil && rec.Since > 0 && e.Since() > 0 && e.Since() != rec.Since {
				e.age.since.Store(rec.Since)
				dated, changed = append(dated, rec.RecordID), append(changed, rec.Pool)
			}
		}
	})
	r.MarkUnsaved(dated...)
	slices.SortFunc(changed, objectid.Pool.Compare)
	return slices.Compact(changed)
}

// date calls change, which sets ages, in a write transaction without a new row. The transaction
// keeps other writers from dropping exports.
func (r *Registry) date(change func(t txn)) {
	t := txn{Txn: r.db.Txn(true)}
	defer t.Abort()
	change(t)
}
