// Package graph is the incremental engine. Its tables hold results of pure functions of the store
// and of earlier tables. A result is recomputed only when something that it read has changed.
//
// A row lives while one of the table's sources has its key: an index of the store, an index of an
// earlier table, or an earlier table. So a reference creates a row, and the end of the last
// reference deletes it. The engine records every read, even of a missing row. It recomputes the
// rows that read a changed key, table by table in the order of declaration, and stops where a
// result equals the old one.
//
//	table.go    Table: declaring one, reading it, what an Update changed
//	index.go    Index: further keys of a table's rows
//	engine.go   Engine: one Update, and the Reader of a Compute
//	reads.go    which row has read what
//	recovery.go rows whose computation panics
//	demand.go   which keys of the store are read, and which rows wait for them
//	explain.go  why a row has its value, for people
//
// Only translator calls it. It has no notion of Gateway API or Envoy.
//
// Invariants: a table reads only the store and earlier tables (checked; it panics on a mistake in
// the program). After any sequence of changes, Update leaves the same rows as a fresh engine that
// receives the same world at once, except for rows that keep their last value because their
// computation panics or because they wait for a key that is read on demand.
//
// # Design notes from profiles
//
// Sources are not reads: an unchanged key does not invalidate rows that only exist because of it.
//
// A row's reads are a list of pointers (reads.go). Maps of three strings took three times the
// memory.
//
// Few tables are read whole, so All sorts the rows when it is called. To keep every table sorted
// took a third of the time of the computation when 10,000 imports arrived in any order.
//
// Tests: go test ./translator/graph
package graph
