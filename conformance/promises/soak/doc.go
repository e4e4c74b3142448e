// Package soak measures a process of Penstock over hours: Samples reads its live heap, its
// goroutines and its resident memory, and Growth computes the figures soak_slope, which have
// limits.
//
// Pages of the program do not count as resident memory: code is read when it first runs, and the
// kernel reclaims it.
//
// Command zeroloss (a folder) and the tests of faults in package promises (Kubernetes) sample a
// process with it while faults happen.
//
// The configuration, and with it the memory, grows and shrinks meanwhile. With Samples.Size, Growth
// fits both.
//
// Invariants: a process that is frozen for a while has no sample then. Growth beyond a limit is an
// error only if it is certain by two standard errors.
//
// Tests: go test ./promises/soak
package soak
