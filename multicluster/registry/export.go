package registry

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Export is a pool that a member exports. What the registry returns must not be changed.
type Export struct {
	Cluster string
	Pool    objectid.Pool
	Stamp   Stamp
	// Entry is how to reach the pool: the cluster's entry of the import. Its name is Cluster.
	Entry inferenceapi.ImportedCluster
	// Incarnation distinguishes the export from earlier ones of that pool, which the cluster has
	// withdrawn.
	Incarnation uint64
	// Since is when this cluster began to import the export (Imported), in microseconds of Unix
	// time; 0: it does not, or did before that was recorded. It stays while the export is imported,
	// whatever the member publishes: of two meanings of a name the older export counts.
	Since int64
	// Draining: the export is withdrawn, or its member drains. It takes no new request.
	Draining bool
	// Size is how many bytes the export has on the wire.
	Size int
	// Unread is why the newest version of the export could not be taken: the other fields are those
	// of an older one, or empty. "": it was.
	Unread string

	withdrawn bool
	restored  bool          // the member has not published it since Restore
	collect   time.Duration // when a withdrawn export is dropped, since the registry was made
}

// Withdrawn reports whether the member does not export the pool any more.
func (e *Export) Withdrawn() bool { return e.withdrawn }

// Restored reports whether the export is that of a Record: this cluster imported it before a
// restart.
func (e *Export) Restored() bool { return e.restored }

// MaxWeight is the largest weight that an export may have; the least is 0.
const MaxWeight = 1_000_000

// invalid is why an export is not taken; "" if it is. What no import may have, an API server
// rejects together with the entries of all others.
func (e *Export) invalid() string {
	if !e.Pool.IsValid() {
		return fmt.Sprintf("%.80q is not the name of a pool", e.Pool.String())
	}
	if _, bad := e.Entry.Violation(); bad != nil {
		return "its " + bad.Error()
	}
	for _, at := range e.Entry.Endpoints {
		for _, port := range at.Ports {
			if port < 1 || port > 65535 { // another one would wrap to a port that the member has not written
				return fmt.Sprintf("one of its ports is %d, and a port is 1 to 65535", port)
			}
		}
	}
	return ""
}

// Imported notes which exports this cluster has begun to import, and which it has ceased to import:
// each that begins is as old as the returned time, in microseconds of Unix time, which is later
// than all before, and each that ceases has no age any more. So an export that a member announced
// before it was imported is no older than one that was not announced. An export that has an age
// keeps it.
func (r *Registry) Imported(begun, ceased []RecordID) (since int64) {
	r.write(func(t txn) {
		since = max(r.cfg.Now().UnixMicro(), r.latest.Load()+1)
		date := func(ids []RecordID, since int64) {
			for _, id := range ids {
				e := rows.First[Export](t, exportTable, exportKey(id.Cluster, id.Pool))
				if e != nil && (e.Since == 0) != (since == 0) {
					same := *e
					same.Since = since
					t.put(&same)
				}
			}
		}
		if date(ceased, 0); len(begun) > 0 {
			date(begun, since)
			r.latest.Store(since)
		}
	})
	return since
}

// Newest is the newest Export.Since of all so far: it changes with each export that this cluster
// begins to import.
func (r *Registry) Newest() int64 { return r.latest.Load() }

// Agree takes over when the process that keeps the records began to import exports, and returns the
// pools to assemble again: all processes of a cluster decide the same about a name. An export that
// this process does not import has no age here, and a record that is not dropped yet gives it none.
func (r *Registry) Agree(records []Record) []objectid.Pool {
	return r.write(func(t txn) {
		for i := range records {
			rec := &records[i]
			r.latest.Store(max(r.latest.Load(), rec.Since))
			e := rows.First[Export](t, exportTable, exportKey(rec.Cluster, rec.Pool))
			if e != nil && rec.Since > 0 && e.Since > 0 && e.Since != rec.Since {
				same := *e
				same.Since = rec.Since
				t.put(&same)
			}
		}
	})
}

// withdraw has an export drain.
func (r *Registry) withdraw(t txn, e *Export, at Stamp) {
	if e.withdrawn {
		return
	}
	next := *e
	next.Stamp, next.Draining, next.withdrawn, next.collect = at, true, true, r.now()+r.cfg.Drain
	t.put(&next)
}

// collectDrained drops the exports that have drained.
func (r *Registry) collectDrained(t txn) {
	now := r.now()
	for _, e := range slices.Collect(until(t, exportTable, byDraining,
		func(e *Export) time.Duration { return e.collect }, now)) {
		t.drop(e)
	}
}

// Exports returns what members export under a pool's name, sorted by cluster. ws, which may be nil,
// fires when Exports would return something else. The exports are the registry's own, and no
// copies: an import reads them several times for each update.
func (r *Registry) Exports(ws WatchSet, p objectid.Pool) []*Export {
	out := slices.Collect(rows.Walk[Export](r.read(), ws, exportTable, byPool, poolKey(p)))
	slices.SortFunc(out, func(a, b *Export) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// Exporters returns the members that export one of some pools.
func (r *Registry) Exporters(pools []objectid.Pool) map[string]bool {
	t, out := r.read(), map[string]bool{}
	for _, p := range pools {
		for e := range rows.Walk[Export](t, nil, exportTable, byPool, poolKey(p)) {
			out[e.Cluster] = true
		}
	}
	return out
}

// Exported reports whether a member exports a pool of that name, or did and it drains.
func (r *Registry) Exported(p objectid.Pool) bool {
	for range rows.Walk[Export](r.read(), nil, exportTable, byPool, poolKey(p)) {
		return true
	}
	return false
}

// ExportsOf returns what a member exports, sorted by pool.
func (r *Registry) ExportsOf(cluster string) []*Export {
	return slices.Collect(rows.Walk[Export](r.read(), nil, exportTable, rows.ByID, rows.Key(cluster)))
}

// PodCIDRs are the ranges of pods that a member publishes: those of its first export in
// EndpointMode, as all of them have the member's.
func (r *Registry) PodCIDRs(cluster string) []string {
	for e := range rows.Walk[Export](r.read(), nil, exportTable, rows.ByID, rows.Key(cluster)) {
		if e.Entry.RoutingMode == inferenceapi.EndpointMode && !e.withdrawn {
			return e.Entry.PodCIDRs
		}
	}
	return nil
}
