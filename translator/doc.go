// Package translator translates objects into Envoy's resources, the pools of Penstock's picker, and
// a report about each object. cmd calls Update after each commit to the store, and passes the
// Output on. tables.go lists all results in order of computation: read it first.
//
// Invariants: translation is pure (no I/O, clock, log or randomness). Names derive from the
// identity of objects. Equal stores give equal bytes.
//
// # Decisions
//
// A rule whose regular expressions exceed their budget answers 500 to all requests that it might
// match. Otherwise a less specific rule would serve them.
//
// A namespace's routes have a budget of Envoy's time on each filter chain of another namespace's
// Gateway (budgets.go). A route above the budget does not attach. Further routes, or a new
// namespace, change no route that is within the budget.
//
// Hops, the internal listeners in front of spill targets, use HTTP/1.1. Over HTTP/2, all requests
// to a hop would share one connection (hopRequests in envoy).
//
// Envoy calls a picker's Service over unverified TLS, as existing pickers expect, or over cleartext
// if the Service's port has appProtocol kubernetes.io/h2c. A BackendTLSPolicy enables verification.
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
