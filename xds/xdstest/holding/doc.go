// Package holding is a model server for tests and benchmarks that holds requests in flight until
// their clients give up.
//
// Any test in every module may use it: it imports only the standard library.
//
// Invariants: Held counts exactly the requests that are held now. The metrics page reports an idle
// server, so that only a picker's own counts show requests.
//
// Tests: only the tests that use the package.
package holding
