// Package poll waits in tests for a condition to hold, and observes that another one does not. It
// is the only polling helper of the repository.
//
// Any test in every module may use it: it imports only the standard library.
//
// Invariants: a condition is checked at once, then at growing intervals of at most 50 ms, and once
// more at the deadline. A deadline only ends a test that hangs, so it is generous. Time comes from
// the time package, so the helpers also work in testing/synctest.
//
// Tests: go test ./xds/xdstest/poll
package poll
