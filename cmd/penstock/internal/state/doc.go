// Package state owns the folder in which a process keeps its files: last good objects, the status,
// sockets. Other users of the machine can neither read nor replace these files.
//
// cmd/penstock opens the folder before anything else uses it. Packages that write files into it
// need no checks of their own.
//
// Invariants: an open folder belongs to the process's user and has mode 0700. No default is below a
// shared temporary folder.
//
// Tests: go test ./cmd/penstock/internal/state
package state
