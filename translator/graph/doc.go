// Package graph is the incremental engine: tables of results, each computed by a pure function from
// the store and from earlier tables, and recomputed only when something that it has read has
// changed.
//
// A table's row lives while its key is found in one of the table's sources: an index of the store,
// an index of an earlier table, or an earlier table itself. So a reference makes a row, and the row
// goes with the last reference. The engine records every read, of a row that exists or of one that
// does not; a change names the keys that it affects; the engine recomputes what has read one of
// them, table by table in the order of declaration, and stops wherever a result comes out equal to
// the old one.
//
// Keys are values of any comparable type, a struct where they have parts. The store's keys are
// strings.
//
//	table.go    Table: declaring one, reading it, what an Update changed
//	index.go    Index: further keys of a table's rows
//	engine.go   Engine: one Update, and what a Compute reads through
//	reads.go    which row has read what
//	recovery.go rows whose computation panics
//	demand.go   which keys of the store are read at all, and which rows wait for them
//	explain.go  why a row is as it is, for people
//
// The package has no notion of Gateway API or Envoy. Its only caller is translator, which declares
// the tables and calls Update.
//
// Invariants: a table reads only the store and earlier tables (checked, panics: a mistake in the
// program); Update after any sequence of changes leaves the same rows as a fresh engine that gets
// the same world at once, except for rows that keep their last value: because their computation
// panics, or because they wait for a key that is read on demand.
//
// # What profiles taught
//
// A row's source is not one of its reads. The engine keeps the two apart, and an unchanged key does
// not invalidate rows that only exist because of it. A table of chains in between keeps a route's
// change from recomputing all listeners of its port.
//
// A dependency is noted once. The reads of a row were three strings, in a map for each row and each
// reader. Each is a pointer in a list now (reads.go), at a third of the memory.
//
// Few tables are read whole. Each kept a sorted list of its rows: 10,000 imports that arrived in
// any order cost a third as much there as in their computation. All sorts the rows when it is
// called.
//
// Tests: go test ./translator/graph
package graph
