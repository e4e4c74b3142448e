// Package rows has the common parts of tables on go-memdb: keys, indexes by keys, and typed reads.
// The board of reports (discovery/status) and the registry of a cluster set (multicluster/registry)
// use it; discovery/store has its own tables, which take less memory.
//
// A key consists of parts, which are strings with a NUL byte after each. So keys sort by their
// parts, and the leading parts of a key are a prefix. Reads take keys as arguments.
//
// Invariant: a row is a pointer to an immutable struct. Reads panic if memdb fails, which means
// that a table or index is not in the schema.
//
// Tests: go test ./discovery/store/rows
package rows
