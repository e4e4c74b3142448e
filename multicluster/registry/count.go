package registry

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/store/rows"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// Bounds of what is held of a member, whatever it is allowed: exports, withdrawn ones included, and the bytes of their wire form.
const (
	maxExports = 10_000
	maxBytes   = 64 << 20
)

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

// put stores an export, and counts it. The names of Secrets are left out: they are Secrets of this cluster, and would have a member choose which
// of them it is sent.
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

// room is why there is no room for an export in place of what is held under its name; "" if there is.
func (t txn) room(e, old *Export) string {
	c := t.count(e.Cluster)
	if old == nil && c.rows >= maxExports {
		return fmt.Sprintf("its cluster exports more than %d pools", maxExports)
	}
	if old != nil {
		c.bytes -= old.Size
	}
	if c.bytes+e.Size > maxBytes {
		return fmt.Sprintf("the exports of its cluster take more than %d MiB", maxBytes>>20)
	}
	return ""
}

// unread notes why the newest version of an export could not be taken. What is known of it stays.
func (t txn) unread(cluster string, p Pool, why string) {
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
