// Package freeport chooses TCP ports of 127.0.0.1 that a program binds later, when its address must
// be known before.
//
// It owns the choice for tests, benchmarks and `penstock demo`. It imports only the standard
// library.
//
// Invariant: a port lies below those that the kernel gives to connections and to listeners of port
// 0, so that no connection takes it before its program binds it. Two choices at the same moment
// agree once in 20,000 times, unless one of them holds its listener.
//
// Tests: go test ./xds/xdstest/freeport
package freeport
