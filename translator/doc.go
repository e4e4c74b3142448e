// Package translator turns objects into Envoy's resources, our picker's pools and a report about
// each object. cmd calls Update after each commit to the store, and passes the Output on: resources
// to xds/cache, pools to the picker, reports to discovery/status.
//
// tables.go lists all results in order of computation: read it first. Each group of tables is
// declared in the file of its name. keys.go has the composite keys; explain*.go follow one request.
//
// Invariants: translation is pure (no I/O, clock, log or randomness). Names derive from identity.
// Equal stores give equal bytes.
//
// # Decisions
//
// Regular expressions have budgets (expressions.go, gatewayapi). Each namespace on a Gateway has
// one row, so one tenant's change reads no other tenant's row. A rule above its budget answers 500
// to all requests that it might match. Otherwise a less specific rule would serve them.
//
// A namespace's routes have a budget of Envoy's time on each chain of another namespace's Gateway
// (budgets.go, gatewayapi.Charge and Cut, envoy.Cost). An excluded route attaches nowhere. The
// budget does not depend on the number of namespaces, and the cut is the age of one route, so a new
// namespace or a further route above the budget changes no other route. The number of a route's
// copies in narrower hosts (Place.Narrow) is rounded up to a power of two, so one more host rarely
// changes a route.
//
// Hops of a pool that spills use HTTP/1.1 (model.FallbackHops). Over HTTP/2 all requests would
// share a connection to a hop, which works well only with few requests on each connection
// (hopRequests in envoy).
//
// A picker's Service implies unverified TLS, the default of existing pickers, unless its port has
// appProtocol kubernetes.io/h2c. A BackendTLSPolicy enables verification. For a remote picker, the
// policy targets the import or its section CLUSTER.picker. Envoy, the relay and the probe follow
// the same policy (externalPicker).
//
// # Design notes from profiles
//
// An exporting cluster of an import has a pool in the picker only while attached routes lead to it
// (pools.go): 10,000 imports without routes took 150 MiB in such pools. A row stores no text that
// only reports need, and reads an object once: this reduced the allocations of 10,000 rows from 185
// MB to 102 MB (BenchmarkImports).
//
// Tests: go test ./translator
package translator
