// Package state owns the folder in which a process keeps its files: last good objects, the status,
// sockets. cmd/penstock opens the folder before anything else uses it.
//
// Invariants: an open folder belongs to the process's user and has mode 0700. The default folder is
// never below a shared temporary folder.
package state
