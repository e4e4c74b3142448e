// Package envoy turns the model into what Envoy gets: protos, encoded once, as resource.Resource.
//
// translator calls it, one function for each kind of resource: Listener and HopListener,
// VirtualHost and RouteConfiguration, HopHost and HopRoutes, Cluster, Endpoints, Secret. It depends
// on Envoy and the model, and not on Gateway API objects. Each of them checks what it has made,
// before it encodes it.
//
// Invariants:
//   - Pure: no I/O, clock, log or randomness. Equal input gives equal bytes, nested Any included.
//   - Refs name every cluster, secret and listener that a resource names, also inside per-filter
//     configuration: delivery orders its steps by them.
//   - The HTTP filter list (filters.go) is the same on every chain and on the listener of hops, and
//     never depends on routes, pools or policies: a change of it cuts every stream of the chain.
//   - Everything that Envoy would reject because of what a user wrote must have been caught before:
//     an error from here is a bug of ours.
//
// # Decisions
//
// A TCP or TLS route has a filter chain to itself, named after its port and server name
// (model.Stream): Envoy has no route configuration for connections, so a route's change changes one
// chain of the listener and no other. Open connections continue for the drain time. A TLS listener
// also has a chain for its own hostname, which closes what no route takes: such a connection must
// not fall to a wider listener.
//
// An external picker never gets headers alone. One that waits for bodies would not answer a gRPC
// stream, an upgrade or a multipart upload. Their headers go to our picker, which sends them on
// with the end of the request (bodyless): that is a form that every picker answers, as for a GET.
// Envoy takes messages of up to 1 MiB from it (maxPickerMessage): its own default holds an answer
// of any size.
//
// A client's certificate reaches backends in x-forwarded-client-cert, whatever the client itself
// sets there; hops pass it on. With AllowInsecureFallback it contains the whole certificate,
// because the backend must judge it.
//
// What the configuration does is tested on the real Envoy, fed by ADS, in e2e_*_test.go: one test
// for each thing that a user would lose. Goldens (testdata/*.txtar, TestEnvoy_Golden) show the
// model and what Envoy gets, in one file each.
//
// Tests: go test ./translator/envoy (with Envoy 1.40 in $ENVOY, .tools/bin or PATH; make envoy
// installs it).
package envoy
