// Package soak measures a process of Penstock over hours: Samples reads its live heap, its
// goroutines and its resident memory, and Growth has the figures soak_slope, which must not exceed
// their limits.
//
// Pages of the program do not count as resident memory: they are read when code runs for the first
// time, and the kernel takes them back.
//
// Command zeroloss (a folder) and the tests of faults in package promises (Kubernetes) sample a
// process with it while faults happen.
//
// The configuration becomes larger and smaller meanwhile, and what a process needs with it:
// Samples.Size has Growth fit both.
//
// Invariants: a process that is frozen for a while has no sample then. Growth beyond a limit is an
// error only if it is certain by two standard errors.
//
// Tests: go test ./promises/soak
package soak
