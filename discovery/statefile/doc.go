// Package statefile writes a file of the state folder: whole, atomically, and so that it survives a
// power cut.
//
// The writers of state use it: discovery/file (last good objects), discovery/hostname (addresses),
// discovery/status (the status file). A disk that is full or a folder that is read-only ends
// nothing: the state in memory stays in use, the file keeps its last content, one error is logged,
// and another line once writing works again.
//
// A file is replaced by a temporary one, whose content is synced before it takes the name, and the
// folder is synced afterwards (ReplaceOn). powercut_internal_test.go cuts the power after each of
// these operations. Files are on a Disk, this machine's or a simulated one.
//
// Invariants: a file has its old content or its new one, never a part, over a power cut too. Once
// Replace returns, it has the new one. Its mode is 0600.
//
//	statefile.go   Replace, Rewrite, Sweep, and Outcome        disk.go   the operations of a disk
//
// Tests: go test ./discovery/statefile
package statefile
