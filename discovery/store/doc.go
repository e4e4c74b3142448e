// Package store holds all objects that Penstock reads: a typed table for each kind. Each index of a
// table is a copy-on-write B-tree.
//
// Warning: objects are immutable. A reader must not change an object, or memory that the object
// refers to. A writer must not change an object after it has passed it to Apply.
//
// Writers (discovery/file, discovery/kube) call Apply with all objects that arrived together: one
// transaction, one revision. Readers (the translator, the multicluster parts, xds/fleet) take a
// View, a consistent snapshot. A Subscription receives the changes of every revision. Each change
// has the keys of the old and the new object in all indexes. A reader that has recorded its reads
// as (table, index, key) can thus find the reads that are out of date.
//
// To add a kind, add a variable with its indexes to tables.go, and a decision about each of its
// fields to decisions.go. Pages and commands print objects with Show, which omits fields without a
// decision.
//
// Invariants: a primary key is "namespace/name", or "name" for cluster-scoped kinds. Rows are
// sorted by primary key. Revision numbers grow by one. If an applied object equals the stored
// object, nothing changes.
//
// # Measurements
//
// go-memdb takes 457 bytes for each key of each index, mostly channels. A copy-on-write B-tree
// (tidwall/btree) takes 90 bytes and inserts twice as fast (BenchmarkIndex). The board of reports
// is a go-memdb nevertheless, because of WatchSets (BenchmarkBoard_Memory in discovery/status).
//
// Tests: go test ./discovery/store
package store
