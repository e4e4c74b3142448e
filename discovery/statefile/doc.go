// Package statefile replaces files of the state folder atomically. If the disk is full or the
// folder is read-only, the process continues with its state in memory, and the file keeps its last
// content.
//
// Invariants: a file has its old or its new content, never a part, even after a power cut. Once
// Replace returns nil, the file has the new content. Its mode is 0600. powercut_internal_test.go
// cuts the power after each operation of ReplaceOn.
package statefile
