// Package rows has what the tables on go-memdb share: keys, indexes by keys, and typed reads. The
// board of reports (discovery/status) and the registry of a cluster set (multicluster/registry) use
// it; discovery/store itself has tables of its own, which take less memory.
//
// A key consists of strings with a NUL byte after each, so that keys sort as their parts do, and a
// list of leading parts is a prefix. The arguments of reads are keys already.
//
// Invariant: a row is a pointer to an immutable struct. memdb fails only for an unknown table or
// index, which is a mistake in the schema, so reads panic in place of returning an error.
//
// Tests: go test ./discovery/store/rows
package rows
