// Package statefile replaces files of the state folder atomically. The new content survives a power
// cut.
//
// discovery/file (last good objects), discovery/hostname (addresses) and discovery/status (the
// status file) use it. A full disk or a read-only folder is not fatal: the state in memory stays in
// use, and the file keeps its last content. The first error is logged, and later the first success.
//
// A file is replaced by a temporary one whose content is synced before the rename; the folder is
// synced afterwards (ReplaceOn). powercut_internal_test.go cuts the power after each of these
// operations.
//
// Invariants: a file has its old or its new content, never a part, even after a power cut. Once
// Replace returns, it has the new content. Its mode is 0600.
//
//	statefile.go   Replace, Rewrite, Sweep, and Outcome        disk.go   the operations of a disk
//
// Tests: go test ./discovery/statefile
package statefile
