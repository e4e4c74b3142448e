package registry

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Budgets of the exports of all members together, whatever each is allowed: their number, withdrawn
// ones included, and the bytes of their wire form, which take some three times as much here. Each
// member has an equal share, at least the least and at most maxExports. What a member has stays
// when its share shrinks, and grows no more.
const (
	allExports, leastExports, maxExports = 40_000, 400, 10_000
	allBytes, leastBytes                 = 64 << 20, 1 << 20
)

// Share is how much of each budget one of several members has. all is Config.Exports.
func Share(all, members int) (exports, bytes int) {
	n := max(members, 1)
	return min(max(all/n, leastExports), maxExports), max(allBytes/n, leastBytes)
}

// Share is how much of each budget a member has now.
func (r *Registry) Share() (exports, bytes int) { return r.read().share() }

func (t txn) share() (exports, bytes int) {
	if t.members != nil && *t.members > 0 {
		return Share(t.exports, *t.members)
	}
	n := 0
	for range rows.Walk[Member](t, nil, memberTable, rows.ByID, nil) {
		n++
	}
	if t.members != nil {
		*t.members = n
	}
	return Share(t.exports, n)
}

// Count is how much a member exports.
type Count struct {
	Cluster string
	// Exports that are not withdrawn, and Endpoints of these.
	Exports, Endpoints int
	// Unread are exports whose newest version could not be taken.
	Unread int

	rows, bytes int // of all, withdrawn ones included
}

// add counts an export n times: 1 or -1.
func (c *Count) add(e *Export, n int) {
	c.rows, c.bytes = c.rows+n, c.bytes+n*e.Size
	if e.Unread != "" {
		c.Unread += n
	}
	if !e.withdrawn {
		c.Exports, c.Endpoints = c.Exports+n, c.Endpoints+n*len(e.Entry.Endpoints)
	}
}

// put stores an export, and counts it. The names of Secrets are left out: they are Secrets of this
// cluster, and would have a member choose which of them it is sent.
func (t txn) put(e *Export) {
	e.Entry.EndpointPicker = withoutSecrets(e.Entry.EndpointPicker)
	c := t.count(e.Cluster)
	if old := rows.First[Export](t, exportTable, exportKey(e.Cluster, e.Pool)); old != nil {
		c.add(old, -1)
	}
	c.add(e, 1)
	rows.Must(t.Insert(exportTable, e))
	t.counts[e.Cluster] = c
}

// drop removes an export.
func (t txn) drop(e *Export) {
	c := t.count(e.Cluster)
	c.add(e, -1)
	rows.Must(t.Delete(exportTable, e))
	t.counts[e.Cluster] = c
}

// storeCounts writes the counts that the transaction has changed: once each, not once an export.
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

// room is why there is no room for an export in place of what is held under its name; "" if there
// is.
func (t txn) room(e, old *Export) string {
	c := t.count(e.Cluster)
	if faulty("share") || c.rows < leastExports && c.bytes+e.Size <= leastBytes { // every share has room for it
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

// fits reports whether a member has room for one more export of a size.
func (t txn) fits(cluster string, size int) bool {
	exports, bytes := t.share()
	c := t.count(cluster)
	return c.rows < exports && c.bytes+size <= bytes
}

// unread notes why the newest version of an export could not be taken. What is known of it stays.
func (r *Registry) unread(t txn, cluster string, p objectid.Pool, why string) {
	next := Export{Cluster: cluster, Pool: p, Entry: inferenceapi.ImportedCluster{Name: cluster}}
	old := rows.First[Export](t, exportTable, exportKey(cluster, p))
	if old != nil {
		next = *old
	} else if t.room(&next, nil) != "" {
		return // it is counted, and named by the source
	}
	if next.Unread != why {
		next.Unread = why
		t.put(&next)
	}
}

// Count returns how much a member exports.
func (r *Registry) Count(cluster string) Count { return r.read().count(cluster) }

// withoutSecrets is a picker without references to Secrets.
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
