// Package graph is the incremental engine, without any notion of Gateway API or Envoy. Only
// translator calls it. Its tables hold results of pure functions of the store and of earlier
// tables.
//
// A row lives while one of the table's sources has its key. The engine records every read, even of
// a missing row. It recomputes the rows that read a changed key, table by table, and stops where a
// result equals the old one.
//
// Invariants: a table reads only the store and earlier tables; a violation panics. After any
// changes, Update leaves the rows that a new engine would compute from the same store, except for
// rows whose computation panics or that wait for a key.
//
// # Design notes from profiles
//
// An unchanged source does not invalidate rows that only exist because of it. A row's reads are a
// list of pointers, because maps of three strings took three times the memory. All sorts the rows
// when it is called: keeping every table sorted took a third of the time when 10,000 imports
// arrived in any order.
//
// Tests: go test ./translator/graph
package graph
