package registry

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/fault"
)

// All members share allExports and allBytes equally; least* and max* bound a member's share. If the
// share shrinks, a member keeps its exports, but may not add to them.
const (
	allExports, leastExports, maxExports = 40_000, 400, 10_000
	allBytes, leastBytes                 = 64 << 20, 1 << 20
)

// Share returns how many exports and bytes each member may store, for a number of members. all is
// Config.Exports.
func Share(all, members int) (exports, bytes int) {
	n := max(members, 1)
	return min(max(all/n, leastExports), maxExports), max(allBytes/n, leastBytes)
}

// Share returns how many exports and bytes each member may store now.
func (r *Registry) Share() (exports, bytes int) { return r.read().share() }

func (t txn) share() (exports, bytes int) {
	if t.members != nil && *t.members > 0 {
		return Share(t.exports, *t.members)
	}
	n := 0
	for range t.allMembers(nil) {
		n++
	}
	if t.members != nil {
		*t.members = n
	}
	return Share(t.exports, n)
}

// Count has the number and size of a member's exports.
type Count struct {
	Cluster string
	// Exports counts exports that are not withdrawn. Endpoints counts their endpoints.
	Exports, Endpoints int
	// Unread counts the exports whose newest version was dropped: it was invalid or had no room.
	Unread int

	rows, bytes int // number and size of exports, including withdrawn exports
}

func (c *Count) add(e *Export, n int) {
	c.rows, c.bytes = c.rows+n, c.bytes+n*e.Size
	if e.Unread != "" {
		c.Unread += n
	}
	if !e.withdrawn {
		c.Exports, c.Endpoints = c.Exports+n, c.Endpoints+n*len(e.Entry.Endpoints)
	}
}

// put stores an export in place of old, which may be nil. It removes the names of Secrets, because
// a member must not choose which Secrets of this cluster are sent to it.
func (t txn) put(e, old *Export) {
	e.Entry.EndpointPicker = withoutSecrets(e.Entry.EndpointPicker)
	c := t.count(e.Cluster)
	if old != nil {
		c.add(old, -1)
	}
	if e.age == nil {
		e.age = aged(0)
	}
	c.add(e, 1)
	rows.Must(t.Insert(exportTable, e))
	t.counts[e.Cluster] = c
}

func (t txn) drop(e *Export) {
	c := t.count(e.Cluster)
	c.add(e, -1)
	rows.Must(t.Delete(exportTable, e))
	t.counts[e.Cluster] = c
}

func (t txn) storeCounts() {
	for _, c := range t.counts {
		if c.rows > 0 {
			rows.Must(t.Insert(countTable, &c))
		} else if rows.First[Count](t, countTable, rows.Key(c.Cluster)) != nil {
			rows.Must(t.Delete(countTable, &c))
		}
	}
}

func (t txn) count(cluster string) Count {
	if c, ok := t.counts[cluster]; ok {
		return c
	}
	if c := rows.First[Count](t, countTable, rows.Key(cluster)); c != nil {
		return *c
	}
	return Count{Cluster: cluster}
}

func (t txn) room(e, old *Export) string {
	c := t.count(e.Cluster)
	// Every member may use the least share.
	if fault.Injected("share") || c.rows < leastExports && c.bytes+e.Size <= leastBytes {
		return ""
	}
	exports, bytes := t.share()
	if old == nil && c.rows >= exports {
		return fmt.Sprintf("its cluster exports more than %d pools, its share here", exports)
	}
	before := c.bytes
	if old != nil {
		c.bytes -= old.Size
	}
	if next := c.bytes + e.Size; next > bytes && next > before {
		return fmt.Sprintf("the exports of its cluster take more than %d MiB, its share here", bytes>>20)
	}
	return ""
}

func (t txn) fits(cluster string, size int) bool {
	exports, bytes := t.share()
	c := t.count(cluster)
	return c.rows < exports && c.bytes+size <= bytes
}

func (r *Registry) unread(t txn, cluster string, p objectid.Pool, why string) {
	next := Export{Cluster: cluster, Pool: p, Entry: inferenceapi.ImportedCluster{Name: cluster}}
	old := t.export(cluster, p)
	if old != nil {
		next = *old
	} else if t.room(&next, nil) != "" {
		return // the source of the update counts and reports it
	}
	if next.Unread != why {
		next.Unread = why
		t.put(&next, old)
	}
}

// Count returns the number and size of a member's exports.
func (r *Registry) Count(cluster string) Count { return r.read().count(cluster) }

// Counts returns the Count of each member that has exports.
func (r *Registry) Counts() (out []Count) {
	for c := range rows.Walk[Count](r.read(), nil, countTable, rows.ByID, nil) {
		out = append(out, *c)
	}
	return out
}

func withoutSecrets(p *inferenceapi.EndpointPickerImport) *inferenceapi.EndpointPickerImport {
	names := func(at *inferenceapi.EndpointImport) bool { return at != nil && at.SecretRef != nil }
	if p == nil || !names(p.Health) && !names(p.Metrics) {
		return p
	}
	out := *p
	for _, at := range []**inferenceapi.EndpointImport{&out.Health, &out.Metrics} {
		if names(*at) {
			*at = &inferenceapi.EndpointImport{Port: (*at).Port}
		}
	}
	return &out
}
