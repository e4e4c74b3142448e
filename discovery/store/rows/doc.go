// Package rows has helpers for tables in go-memdb: keys, indexes by keys, and typed reads.
//
// A key consists of strings with a NUL byte after each, so keys sort by their parts, and the
// leading parts of a key are a prefix. A row is a pointer to an immutable struct. Reads panic if
// memdb fails, which means that a table or index is not in the schema.
package rows
