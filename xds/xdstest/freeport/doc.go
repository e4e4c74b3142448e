// Package freeport chooses TCP ports of 127.0.0.1 that a program binds later, for tests, benchmarks
// and `penstock demo`.
//
// Invariant: a port is below the ports that the kernel assigns, so that no connection takes it
// before its program binds it. A process chooses from blocks of ports that it alone has. It
// chooses a port again after all others of a block.
//
// Tests: go test ./xds/xdstest/freeport
package freeport
