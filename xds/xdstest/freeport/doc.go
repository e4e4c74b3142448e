// Package freeport chooses TCP ports of 127.0.0.1 that a program binds later, for addresses that
// are needed before.
//
// It serves tests, benchmarks and `penstock demo`, and imports only the standard library.
//
// Invariant: a port lies below the kernel's ports for connections and for listeners of port 0, so
// that no connection takes it before its program binds it. Two simultaneous choices agree once in
// 20,000 times, unless one of them holds its listener.
//
// Tests: go test ./xds/xdstest/freeport
package freeport
