// Package statefile replaces files of the state folder atomically. A file is replaced by a
// temporary file whose content is synced before the rename; the folder is synced afterwards.
// powercut_internal_test.go cuts the power after each of these operations.
//
// A full disk or a read-only folder is not fatal: the state in memory stays in use, and the file
// keeps its last content. The first error is logged, and later the first success.
//
// Invariants: a file has its old or its new content, never a part, even after a power cut. Once
// Replace returns, it has the new content. Its mode is 0600.
package statefile
