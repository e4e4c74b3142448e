// Package store holds all objects that Penstock reads: a typed table for each kind. Each index of a
// table is a copy-on-write B-tree.
//
// Warning: objects are immutable. A reader must not change an object or any memory that it refers
// to. A writer must not change an object after it has passed it to Apply.
//
// Writers (discovery/file, discovery/kube) call Apply with all objects that arrived together: one
// transaction, one revision. Readers (the translator, the multicluster parts, xds/fleet) take a
// View, a consistent snapshot. A Subscription receives the changes of every revision. Each change
// has the keys of all indexes of the old and the new object, so a reader that recorded its reads as
// (table, index, key) can find the reads that are out of date.
//
// To add a kind, add a variable with its indexes to tables.go, and a decision about each of its
// fields to decisions.go: pages and commands print objects with Show, which omits all other fields.
//
// Invariants: a primary key is "namespace/name", or "name" for cluster-scoped kinds. Rows are
// sorted by primary key. Revision numbers grow by one. Applying an object that equals the stored
// one is no change.
//
// # Measurements
//
// go-memdb takes 457 bytes for each key of each index, mostly channels. A copy-on-write B-tree
// (tidwall/btree) takes 90 and inserts twice as fast (BenchmarkIndex). The board of reports is a
// go-memdb nevertheless, for its WatchSets (BenchmarkBoard_Memory in discovery/status).
//
// A reader that judges many addresses reads their occupants by one key (ByAddresses). A read, a
// demand and a set of occupants for each address of a hand-written EndpointSlice took 350 bytes:
// 5,000 Services with such slices of 10 endpoints took 26 MiB more.
//
// Tests: go test ./discovery/store
package store
