package registry

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// RecordID identifies the Record of an export or, if Pool is empty, of a member.
type RecordID struct {
	Cluster string
	Pool    objectid.Pool
}

// Compare orders ids by cluster, then by pool. A member's own id comes before the ids of its
// exports.
func (id RecordID) Compare(o RecordID) int {
	return cmp.Or(cmp.Compare(id.Cluster, o.Cluster), id.Pool.Compare(o.Pool))
}

// Record is the state of a member, or of one of its exports, that is saved for the next restart.
type Record struct {
	RecordID
	UID string
	// Stamp is the stamp of the export, or Member.Known.
	Stamp Stamp
	// Entry is Export.Entry; empty for a member.
	Entry inferenceapi.ImportedCluster
	// Since is Export.Since; 0 for a member.
	Since int64
	// Withdrawn means that the export drains.
	Withdrawn bool
	// Reason states why this cluster does not use an export with an Offer. Restore ignores it.
	Reason, Message string
	// Draining means that the member drains.
	Draining bool
	// Bundle and Started are the fields of Member; empty for an export.
	Bundle  []byte
	Started time.Time
}

func byID(a, b Record) int { return a.Compare(b.RecordID) }

// Restore applies the records of members that have not sent an update, and returns the pools that
// multicluster/imports must assemble. These members are Unreachable. It skips records with another
// UID than the member's.
func (r *Registry) Restore(records []Record) []objectid.Pool {
	records = slices.SortedFunc(slices.Values(records), byID)
	return r.write(func(t txn) {
		known := map[string]bool{}
		for i := range records {
			rec := &records[i]
			m := t.member(rec.Cluster)
			if m == nil {
				continue
			}
			if _, seen := known[m.Name]; !seen {
				known[m.Name] = m.UID != ""
			}
			if known[m.Name] || m.UID != "" && m.UID != rec.UID {
				continue
			}
			if m.UID == "" { // another record of the member may have set the UID
				r.renew(t, m)
			}
			next := *m
			next.UID = rec.UID
			if rec.Stamp.Compare(next.Known) > 0 {
				next.Known = rec.Stamp
			}
			if rec.Pool == (objectid.Pool{}) {
				next.drained, next.Bundle, next.Started = rec.Draining, rec.Bundle, rec.Started
			} else {
				e := &Export{
					Cluster: m.Name, Pool: rec.Pool, Stamp: rec.Stamp, Entry: rec.Entry, age: aged(rec.Since),
					Draining: rec.Withdrawn || m.drained, withdrawn: rec.Withdrawn, restored: true,
				}
				e.Entry.Name = m.Name
				if e.Unread = e.invalid(); e.Unread != "" { // an earlier release may accept more
					e.Entry = inferenceapi.ImportedCluster{Name: m.Name}
				}
				if e.withdrawn {
					e.collect = r.now() + r.cfg.Drain
				}
				t.put(e, t.export(e.Cluster, e.Pool))
			}
			r.latest.Store(max(r.latest.Load(), rec.Since))
			rows.Must(t.Insert(memberTable, &next))
		}
	})
}

// Records returns all records, sorted.
func (r *Registry) Records() (out []Record) {
	t := r.read()
	members := t.membersByName()
	for _, m := range members {
		if m.UID != "" {
			out = append(out, m.record())
		}
	}
	for e := range rows.Walk[Export](t, nil, exportTable, rows.ByID, nil) {
		if rec, ok := e.record(members[e.Cluster]); ok {
			out = append(out, rec)
		}
	}
	slices.SortFunc(out, byID)
	return out
}

func (m *Member) record() Record {
	return Record{
		RecordID: RecordID{Cluster: m.Name}, UID: m.UID, Stamp: m.Known, Draining: m.drained, Bundle: m.Bundle,
		Started: m.Started,
	}
}

func (t txn) membersByName() map[string]*Member {
	out := map[string]*Member{}
	for m := range t.allMembers(nil) {
		out[m.Name] = m
	}
	return out
}

// record returns false for an export of a former member (m is nil), and for an export that never
// had a valid version.
func (e *Export) record(m *Member) (Record, bool) {
	if m == nil || e.Entry.RoutingMode == "" {
		return Record{}, false
	}
	return Record{RecordID: RecordID{e.Cluster, e.Pool}, UID: m.UID, Stamp: e.Stamp, Entry: e.Entry, Since: e.Since(),
		Withdrawn: e.withdrawn}, true
}

// Unsaved returns a channel that has an element while TakeUnsaved may return changed records.
func (r *Registry) Unsaved() <-chan struct{} { return r.wake }

// TakeUnsaved returns the changed records since the last call, and the ids of deleted ones, sorted.
func (r *Registry) TakeUnsaved() (changed []Record, gone []RecordID) {
	r.mu.Lock()
	ids := r.unsaved
	r.unsaved = map[RecordID]struct{}{}
	r.mu.Unlock()
	t := r.read()
	changed = make([]Record, 0, len(ids))
	members := t.membersByName()
	for id := range ids {
		var rec Record
		ok := false
		if id.Pool == (objectid.Pool{}) {
			if m := members[id.Cluster]; m != nil && m.UID != "" {
				rec, ok = m.record(), true
			}
		} else if e := t.export(id.Cluster, id.Pool); e != nil {
			rec, ok = e.record(members[id.Cluster])
		}
		if ok {
			changed = append(changed, rec)
		} else {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(changed, byID)
	slices.SortFunc(gone, RecordID.Compare)
	return changed, gone
}

// MarkUnsaved makes the next TakeUnsaved return these records, too.
func (r *Registry) MarkUnsaved(ids ...RecordID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.unsaved[id] = struct{}{}
	}
	if len(r.unsaved) > 0 {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func recorded(before, after any) (id RecordID, ok bool) {
	switch row := cmp.Or(after, before).(type) {
	case *Export:
		return RecordID{row.Cluster, row.Pool}, true
	case *Member:
		if before != nil && after != nil {
			b, a := before.(*Member), after.(*Member)
			same := b.UID == a.UID && b.Known == a.Known && b.drained == a.drained && b.Started.Equal(a.Started)
			if same && bytes.Equal(b.Bundle, a.Bundle) {
				return id, false
			}
		}
		return RecordID{Cluster: row.Name}, row.UID != ""
	}
	return id, false
}
