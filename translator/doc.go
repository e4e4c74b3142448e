// Package translator turns objects into Envoy's resources, our picker's pools and a report about
// each object. cmd calls Update after each commit to the store, and passes the Output on. tables.go
// lists all results in order of computation: read it first.
//
// Invariants: translation is pure (no I/O, clock, log or randomness). Names derive from identity.
// Equal stores give equal bytes.
//
// # Decisions
//
// A rule above its budget of regular expressions answers 500 to all requests that it might match.
// Otherwise a less specific rule would serve them.
//
// A namespace's routes have a budget of Envoy's time on each chain of another namespace's Gateway
// (budgets.go). An excluded route attaches nowhere. A new namespace, or a further route above the
// budget, changes no other route.
//
// Hops of a pool that spills use HTTP/1.1. Over HTTP/2 all requests would share a connection to a
// hop (hopRequests in envoy).
//
// Envoy calls a picker's Service over unverified TLS, as existing pickers expect, unless the
// Service's port has appProtocol kubernetes.io/h2c. A BackendTLSPolicy enables verification.
//
// # Design notes from profiles
//
// The picker has a pool for an exporting cluster only while attached routes lead to its import:
// 10,000 imports without routes took 150 MiB in such pools. A row stores no text that is needed
// only for reports, and it reads an object once. This reduced the allocations of 10,000 rows from
// 185 MB to 102 MB (BenchmarkImports).
//
// Tests: go test ./translator
package translator
