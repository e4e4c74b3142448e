// Package freeport chooses TCP ports of 127.0.0.1 that a program binds later, for tests, benchmarks
// and `penstock demo`.
//
// Invariant: ports are below the ports that the kernel assigns to connections. Each process chooses
// from its own blocks of ports, and repeats a port only after all others of a block.
//
// Tests: go test ./xds/xdstest/freeport
package freeport
