// Package holding is a model server for tests and benchmarks that holds requests in flight until
// their clients give up.
//
// Any test in every module may use it: it imports only the standard library.
//
// Invariants: Held counts exactly the requests that are held now. The metrics page reports an idle
// server, so that a picker's counts are its own.
//
// Tests: the users of the package.
package holding
