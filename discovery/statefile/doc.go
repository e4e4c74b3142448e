// Package statefile writes a file of the state folder: whole, atomically, and so that it survives a power cut.
//
// The writers of state use it: discovery/file (last good objects), discovery/hostname (addresses), discovery/status (the status
// file). A disk that is full or a folder that is read-only ends nothing: the state in memory stays in use, the file keeps its last
// content, one error is logged, and another line once writing works again.
//
// Invariants: a file has its old content or its new one, never a part. Its mode is 0600.
//
// Tests: go test ./discovery/statefile
package statefile
