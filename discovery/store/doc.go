// Package store holds all objects that Penstock reads, in a typed table for each kind.
//
// Warning: objects are immutable. A reader must not change an object, or memory that the object
// refers to. A writer must not change an object after passing it to Apply.
//
// Writers (discovery/file, discovery/kube) call Apply with all objects that arrived together. Each
// call is one transaction and one revision. Readers take a View, a consistent snapshot. A
// Subscription receives the changes of every revision. A reader that records each of its reads as
// (table, index, key) can compare them with the changes, and repeat only the reads that are out of
// date.
//
// Invariants: a primary key is "namespace/name", or "name" for cluster-scoped kinds. Rows are
// sorted by primary key. Revision numbers grow by one. If an applied object equals the stored
// object, nothing changes.
//
// The indexes are copy-on-write B-trees (tidwall/btree). They take 90 bytes for each key. go-memdb
// would take 457 bytes (BenchmarkIndex).
package store
