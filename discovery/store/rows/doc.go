// Package rows has the common parts of tables on go-memdb: keys, indexes by keys, and typed reads.
// The board of reports (discovery/status) and the registry of a cluster set (multicluster/registry)
// use it; discovery/store has its own tables, which take less memory.
//
// A key consists of strings with a NUL byte after each, so that keys sort by their parts, and a
// list of leading parts is a prefix. Reads take keys as arguments.
//
// Invariant: a row is a pointer to an immutable struct. memdb fails only for an unknown table or
// index, which is a mistake in the schema, so reads panic.
//
// Tests: go test ./discovery/store/rows
package rows
