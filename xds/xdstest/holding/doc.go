// Package holding is a model server for tests and benchmarks that holds requests: what is in flight
// stays in flight until its client gives up.
//
// Any test may use it, in every module: it imports only the standard library.
//
// Invariants: Held counts exactly the requests that are held now. The metrics page reports an idle
// server, so that a picker's counts are its own.
//
// Tests: those that use it.
package holding
