// Package envoy turns the model into what Envoy gets: protos, encoded once, as resource.Resource.
//
// translator calls it, one function for each kind of resource: Listener and HopListener, VirtualHost and
// RouteConfiguration, HopRoutes, Cluster, Endpoints, Secret. It depends on Envoy and the model, and not on Gateway API
// objects. Each of them checks what it has made, before it encodes it.
//
// Invariants:
//   - Pure: no I/O, clock, log or randomness. Equal input gives equal bytes, nested Any included.
//   - Refs name every cluster, secret and listener that a resource names, also inside per-filter configuration:
//     delivery orders its steps by them.
//   - The HTTP filter list (filters.go) is the same on every chain and every hop, and never depends on routes, pools or
//     policies: a change of it cuts every stream of the chain.
//   - Everything that Envoy would reject because of what a user wrote must have been caught before: an error from here
//     is a bug of ours.
//
// What the configuration does is tested on the real Envoy, fed by ADS, in e2e_*_test.go: one test for each thing that a
// user would lose. Goldens (testdata/*.txtar, TestEnvoy_Golden) show the model and what Envoy gets, in one file each.
//
// Tests: go test ./translator/envoy (with Envoy 1.40 in $ENVOY, .tools/bin or PATH; make envoy installs it).
package envoy
