// Package poll waits in tests until a condition holds, or checks that it does not hold for a time.
// It is the repository's only polling helper.
//
// Invariant: a condition is checked at once, then at growing intervals of at most 50 ms, and at the
// deadline. The helpers also work in testing/synctest.
//
// Tests: go test ./xds/xdstest/poll
package poll
