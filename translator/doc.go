// Package translator turns objects into Envoy's resources, our picker's pools and a report about
// each object. Update translates changes incrementally; a fresh Translator that receives the whole
// store at once returns the same bytes.
//
// tables.go lists all results in order of computation: read it first. Each group of tables is
// declared in the file of its name; keys.go has the composite keys. cluster.go and assignment.go
// decide one cluster and its endpoints; explain*.go follow one request.
//
// cmd makes one Translator, calls Update after each commit to the store, and passes on the Output:
// resources to xds/cache, pools to the picker, reports to discovery/status.
//
// Invariants: translation is pure (no I/O, clock, log or randomness); names derive from identity;
// equal worlds give equal bytes.
//
// # Decisions
//
// Regular expressions have budgets (expressions.go here; figures and reasons in gatewayapi). A
// table between routes and virtual hosts has a row for each namespace on a Gateway, so one tenant's
// change reads no other tenant's row. A rule above its budget answers 500 to all requests that it
// might match. Otherwise a less specific rule, written for other requests, would serve them.
//
// The routes of a namespace have a budget of Envoy's time on each chain of another namespace's
// Gateway (budgets.go here, Charge and Cut in gatewayapi, Cost in envoy). It is applied before
// attachments, as a loss: an excluded route attaches nowhere. The budget does not depend on the
// number of namespaces, so a new namespace changes no route. The cut is the age of one route, so a
// further route above the budget recomputes no other route. The number of a route's copies in
// narrower hosts (Place.Narrow) is the chain's number of hosts, rounded up to a power of two. So
// one more host rarely changes anything.
//
// Contests in routes.go decide which route gets a host: an HTTPRoute and a GRPCRoute do not share a
// host, and neither do TLS or TCP routes.
//
// Hops of a pool that spills use HTTP/1.1 (model.FallbackHops). Over HTTP/2 all requests would
// share a connection to a hop, which works well only with few requests on each connection
// (hopRequests in envoy).
//
// A picker's Service implies unverified TLS, the default of existing pickers, unless its port has
// appProtocol kubernetes.io/h2c. A BackendTLSPolicy for the Service enables verification; for a
// remote picker, it targets the import or its section CLUSTER.picker. Envoy, the relay and the
// probe follow the same policy (externalPicker).
//
// # Design notes from profiles
//
// An exporting cluster of an import has a pool in the picker, with a connection to the remote
// picker, only while attached routes lead to it (members in pools.go): 10,000 imports without
// routes took 150 MiB in such pools. A row stores no text that only reports of used imports need
// (model.Exposure), and reads an object once: this reduced the allocations of 10,000 rows from 185
// MB to 102 MB (BenchmarkImports).
//
// Tests: go test ./translator
package translator
