// Package poll waits in tests for a condition to hold. It is the only polling helper of the
// repository.
//
// Any test may use it, in every module: it imports only the standard library.
//
// Invariants: a condition is checked at once, then at growing intervals of at most 50 ms, and once
// more at the deadline. A deadline only ends a test that hangs; it measures nothing, so it is
// generous. Time is the time package's, so the helpers also work inside a bubble of
// testing/synctest.
//
// Tests: go test ./xds/xdstest/poll
package poll
