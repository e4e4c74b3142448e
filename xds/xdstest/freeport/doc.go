// Package freeport chooses TCP ports of 127.0.0.1 that a program binds later, for tests, benchmarks
// and `penstock demo`.
//
// Invariant: a port is below the ports that the kernel assigns, so that no connection takes it
// before its program binds it. Two simultaneous choices are equal once in 20,000 times, unless one
// of them holds its listener.
//
// Tests: go test ./xds/xdstest/freeport
package freeport
