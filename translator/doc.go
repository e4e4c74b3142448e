// Package translator turns objects into Envoy's resources, our picker's pools and a report about
// each object. It exists once: Update translates a change, and a fresh Translator that gets the
// whole store at once returns the same, byte for byte.
//
// tables.go lists what is computed, in order, and is the map of the whole: read it first. Each
// group of tables is declared in the file of its name; keys.go has the keys that have parts:
//
//	gateways.go    Gateways and the certificates that they present       pools.go      pools, imports, their members
//	routes.go      candidates, contests, attachments                      hosts.go      virtual hosts, route configurations
//	listeners.go   listeners, chains that hand on connections             hops.go       hops in front of pools
//	clusters.go    clusters, assignments, external pickers                secrets.go    SDS secrets
//	reports.go     reports about objects                                 panics.go     rows whose computation panics
//	parents.go     Gateways through which other clusters reach a pool
//	budgets.go     what the routes of a namespace may cost the Envoys of others
//
// cluster.go and assignment.go decide one cluster and its endpoints; explain*.go follow one
// request. gatewayapi and inference turn objects into the model, services turns Services and
// selectors into endpoints, envoy turns the model into protos, graph decides which rows to
// recompute.
//
// cmd makes one Translator, calls Update after each commit to the store, and hands the Output on:
// resources to xds/cache, pools to the picker, reports to discovery/status.
//
// Invariants: translation is pure (no I/O, clock, log or randomness); names come from identity;
// equal worlds give equal bytes.
//
// # Decisions
//
// Regular expressions have budgets (expressions.go here, and the figures in gatewayapi): Envoy
// compiles all of a route configuration again for each change of it. A table between routes and
// virtual hosts has a row for each namespace on a Gateway, so one tenant's change reads no other
// tenant's row. The size of a program is estimated from its syntax tree, byte by byte as Envoy
// reads it; a test compares it with Envoy's own. A rule above its budget takes all requests that it
// might match, with a 500. Otherwise a less specific rule, written for other requests, would serve
// them.
//
// The routes of a namespace have a budget of Envoy's time on each chain of another namespace's
// Gateway (budgets.go here, Charge and Cut in gatewayapi, Cost in envoy). It is decided before
// attachments, as a loss: a route without a place is attached nowhere, so no later table has to
// leave it out. It is a share of nothing: how many namespaces there are changes no route. Where it
// ends is the age of one route, so a further route above the budget recomputes none of the others.
// Copies of a route in narrower hosts (Place.Narrow) are counted by the chain's hosts to a power of
// two, so that a further host changes nothing. Routes of the Gateway's own namespace cost nothing:
// no row and no read.
//
// Conflicts about a host are decided between routes (contests in routes.go): HTTPRoutes and
// GRPCRoutes do not share one, and TLS and TCP routes cannot. HTTPRoutes alone never conflict
// there, so that thousands of them cost nothing.
//
// Where a pool spills, its hops take HTTP/1.1. A pool that spills and whose servers speak h2c, or
// whose picker is external (Envoy cannot ignore an immediate response in FULL_DUPLEX_STREAMED), is
// a cluster of hops on an edge: one to itself first, then its spill targets. Over HTTP/2 all
// requests share a connection to a hop, which works as well only with few requests on each
// (hopRequests in envoy). So a pool has another pick through its own hop when a pick was lost.
//
// A picker's Service means TLS, unverified, unless its port has appProtocol kubernetes.io/h2c: that
// is what the pickers in the field serve by default. A BackendTLSPolicy for the Service turns
// verification on; one for an import, or its section CLUSTER.picker, does for a remote picker.
// Envoy, the relay and the probe follow the same policy (externalPicker). Each of several Services
// has the transport that its own port requires: a mark on the endpoint chooses the transport
// socket.
//
// # What profiles taught
//
// What other clusters export is not what is used here. An exporting cluster of an import has a pool
// of the picker, with a connection to the remote picker, while attached routes lead to it (members
// in pools.go). 10,000 imports without routes took 150 MiB in such pools. Each import has a report,
// and so a row, though no route leads to it. A row writes no text that only a report of an import
// in use has (model.Exposure), and reads an object once: 10,000 rows allocated 185 MB, and allocate
// 102 MB (BenchmarkImports).
//
// Tests: go test ./translator
package translator
