// Package labtest has the common part of tests that run in a lab: a lab for a package's tests
// (Main), a namespace for a test with an administrator's clients (Place), waiting for a condition
// (Until) or a rollout (RolledOut), and requests (Get, Load).
//
// The tests of lab, promises, promises/apiserver, promises/chart and promises/members use it. It
// does not depend on Penstock. A package's own helpers are methods of a type that embeds a Place.
//
// Invariants: no function measures time; Timeout only ends a test that hangs.
//
// Tests: `make test-lab` runs on it.
package labtest
