// Package store holds all objects that Penstock reads: a typed table for each kind.
//
// Warning: objects are immutable. A reader must not change an object, or memory that the object
// refers to. A writer must not change an object after it has passed it to Apply.
//
// Writers (discovery/file, discovery/kube) call Apply with all objects that arrived together: one
// transaction, one revision. Readers take a View, a consistent snapshot. A Subscription receives
// the changes of every revision. Each change has the keys of the old and the new object in all
// indexes, so a reader that has recorded its reads as (table, index, key) can find the reads that
// are out of date.
//
// Invariants: a primary key is "namespace/name", or "name" for cluster-scoped kinds. Rows are
// sorted by primary key. Revision numbers grow by one. If an applied object equals the stored
// object, nothing changes.
//
// go-memdb takes 457 bytes for each key of each index. A copy-on-write B-tree (tidwall/btree) takes
// 90 bytes and inserts twice as fast (BenchmarkIndex).
package store
