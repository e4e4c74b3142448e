// Package replace executes a new program in the process of the earlier one, so that the process ID,
// the children and the listening sockets stay. cmd/penstock uses it for penstock up, at SIGUSR2.
//
// The new program is the file that the process was started from, after an upgrade has replaced it.
// Check runs this file once beside the earlier program: it validates its flags and ends. A State is
// passed in an environment variable, which Inherit removes before children are started.
//
// Invariants: a program that Check rejects has no effect. A State counts only in the process that
// wrote it. The new program closes each file descriptor that it does not use.
//
// Tests: cd conformance && go test ./features -run Replace
package replace
