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

// Export is a pool that a member exports. Callers must not modify it.
type Export struct {
	Cluster string
	Pool    objectid.Pool
	Stamp   Stamp
	// Entry is the cluster's entry in the import. Entry.Name is Cluster.
	Entry inferenceapi.ImportedCluster
	// Incarnation distinguishes the export from earlier exports of the pool, which were withdrawn.
	Incarnation uint64
	// Draining means that the export is withdrawn, or that its member drains. It gets no new
	// requests.
	Draining bool
	// Size is the size of the export on the wire, in bytes.
	Size int
	// Unread states why the newest version is not used; "": it is used. Otherwise the other fields
	// have an older version, or are empty.
	Unread string

	withdrawn bool
	restored  bool          // the member has sent no version since Restore
	collect   time.Duration // when a withdrawn export is dropped, as a time since New
	age       *age          // shared by all versions of the export
}

// Withdrawn reports whether the member no longer exports the pool.
func (e *Export) Withdrawn() bool { return e.withdrawn }

// Restored reports whether the export comes from a Record: its member has sent no version since.
func (e *Export) Restored() bool { return e.restored }

// MaxWeight is the largest weight of an export; the smallest is 0.
const MaxWeight = 1_000_000

// invalid returns why API servers would reject an import with the export; "": it is valid.
func (e *Export) invalid() string {
	if !e.Pool.IsValid() {
		return fmt.Sprintf("%.80q is not the name of a pool", e.Pool.String())
	}
	if _, bad := e.Entry.Violation(); bad != nil {
		return "its " + bad.Error()
	}
	for _, at := range e.Entry.Endpoints {
		for _, port := range at.Ports {
			if port < 1 || port > 65535 { // a larger number would be truncated to another port
				return fmt.Sprintf("one of its ports is %d, and a port is 1 to 65535", port)
			}
		}
	}
	return ""
}

func (r *Registry) withdraw(t txn, e *Export, at Stamp) {
	if e.withdrawn {
		return
	}
	next := *e
	next.Stamp, next.Draining, next.withdrawn, next.collect = at, true, true, r.now()+r.cfg.Drain
	t.put(&next, e)
}

func (e *Export) end() time.Duration { return e.collect }

func (r *Registry) collectDrained(t txn) {
	for _, e := range slices.Collect(until[*Export](t, exportTable, byDraining, r.now())) {
		t.drop(e)
	}
}

// Exports returns the exports of pool p, sorted by cluster. ws, which may be nil, fires when the
// result may have changed.
func (r *Registry) Exports(ws WatchSet, p objectid.Pool) []*Export {
	out := slices.Collect(rows.Walk[Export](r.read(), ws, exportTable, byPool, poolKey(p)))
	slices.SortFunc(out, func(a, b *Export) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return out
}

// Exported reports whether a member exports a pool, or its withdrawn export of the pool still
// drains.
func (r *Registry) Exported(p objectid.Pool) bool {
	for range rows.Walk[Export](r.read(), nil, exportTable, byPool, poolKey(p)) {
		return true
	}
	return false
}

// Pools returns the pools that members export, or whose withdrawn exports drain, sorted.
func (r *Registry) Pools() (pools []objectid.Pool) {
	for e := range rows.Walk[Export](r.read(), nil, exportTable, byPool, nil) {
		if n := len(pools); n == 0 || pools[n-1] != e.Pool {
			pools = append(pools, e.Pool)
		}
	}
	return pools
}

// ExportsOf returns a member's exports, sorted by pool.
func (r *Registry) ExportsOf(cluster string) []*Export {
	return slices.Collect(r.read().exportsOf(cluster))
}

// PodCIDRs returns the pod ranges that a member publishes. All its exports in EndpointMode have the
// same.
func (r *Registry) PodCIDRs(cluster string) []string {
	for e := range r.read().exportsOf(cluster) {
		if e.Entry.RoutingMode == inferenceapi.EndpointMode && !e.withdrawn {
			return e.Entry.PodCIDRs
		}
	}
	return nil
}
