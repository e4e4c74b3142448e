// Package graph is an incremental computation engine that knows neither Gateway API nor Envoy. Its
// tables hold results of pure functions of the store and of earlier tables.
//
// A row exists while one of the table's sources has its key. The engine records every read, even a
// read of a missing row. After a change it recomputes, table by table, the rows that read a changed
// key. It stops where a new result equals the old result.
//
// Invariants: a table reads only the store and earlier tables; a violation panics. After Update,
// the rows equal the rows that a new engine computes from the same store. Rows that panicked, or
// that wait for a key, are exceptions.
//
// # Design notes from profiles
//
// A row's reads are a list of pointers: maps of three strings took three times the memory.
// Table.All sorts the rows when it is called. With tables that were always sorted, sorting took a
// third of the time when 10,000 imports arrived in random order.
//
// Tests: go test ./translator/graph
package graph
