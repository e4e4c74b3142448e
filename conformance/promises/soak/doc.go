// Package soak measures a process of Penstock over hours. Samples records its live heap, its
// goroutines and its resident memory. Growth computes the figures soak_slope, which have limits.
//
// Pages of the program do not count as resident memory: code is read when it first runs, and the
// kernel reclaims it.
//
// Command zeroloss (a folder) and the tests of faults in package promises (Kubernetes) sample a
// process with it while faults happen.
//
// The configuration grows and shrinks meanwhile, and memory follows it. With Samples.Size, Growth
// removes this part.
//
// Invariants: there are no samples while a process is frozen. Growth is an error only if it exceeds
// its limit by more than two standard errors.
//
// Tests: go test ./promises/soak
package soak
