// Package graph is the incremental engine: tables of results, each computed by a pure function from the store and from
// earlier tables, and computed again only when something that it has read has changed.
//
// A table's row lives while its key is found in one of the table's sources: an index of the store or of an earlier
// table. So a row is made by being referred to, and goes with the last reference. Every read, of a row that exists or
// of one that does not, is remembered as (table, index, key); a change names the keys that it touched; what had read
// one of them is computed again, table by table in the order of declaration, and the work stops wherever a result
// comes out equal to the old one.
//
// The package knows nothing of Gateway API or Envoy. translator declares the tables and calls Update; nobody else does.
//
// Invariants: a table reads only the store and earlier tables (checked, panics: a mistake in the program); Update after
// any sequence of changes leaves the same rows as a fresh engine that gets the same world at once.
//
// Tests: go test ./translator/graph
package graph
