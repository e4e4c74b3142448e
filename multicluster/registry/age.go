package registry

import (
	"slices"
	"sync/atomic"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// age holds Export.Since outside the immutable row. It changes only within a write transaction.
type age struct{ since atomic.Int64 }

func aged(since int64) *age {
	a := &age{}
	a.since.Store(since)
	return a
}

// Since returns when this cluster began to import the export, in microseconds since 1970; 0: it is
// not imported, or Imported has not recorded it.
func (e *Export) Since() int64 { return e.age.since.Load() }

// Imported records which exports this cluster begins and ceases to import. A begun export without a
// time gets since as its Export.Since, in microseconds since 1970. A ceased export gets 0.
func (r *Registry) Imported(begun, ceased []RecordID) (since int64) {
	var dated []RecordID
	date := func(t txn, ids []RecordID, since int64) {
		for _, id := range ids {
			e := t.export(id.Cluster, id.Pool)
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

// Agree sets Export.Since to the values in the leader's records, because names of imports must have
// the same meaning in all processes. It returns the pools that multicluster/imports must assemble
// again.
func (r *Registry) Agree(records []Record) (changed []objectid.Pool) {
	var dated []RecordID
	r.date(func(t txn) {
		for i := range records {
			rec := &records[i]
			r.latest.Store(max(r.latest.Load(), rec.Since))
			e := t.export(rec.Cluster, rec.Pool)
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

// date calls change in a write transaction, so that no other writer drops exports meanwhile.
func (r *Registry) date(change func(t txn)) {
	t := txn{Txn: r.db.Txn(true)}
	defer t.Abort()
	change(t)
}
