// Package envoy encodes the model as Envoy's protos, once, as resource.Resource.
//
// translator calls it, with one function for each kind of resource. It does not depend on Gateway
// API objects.
//
// Invariants:
//   - Pure: no I/O, clock, log or randomness. Equal input gives equal bytes, nested Any included.
//   - Refs list every cluster, secret and listener that a resource references, including per-filter
//     configuration: delivery orders its steps by them.
//   - The HTTP filter list (filters.go) is the same on every chain and on the listener of hops. It
//     never depends on routes, pools or policies, because a change ends every stream of the chain.
//   - Users' mistakes that Envoy would reject are detected before encoding: an error from this
//     package is a bug in Penstock.
//
// # Decisions
//
// A TCP or TLS route has its own filter chain, named after its port and server name (model.Stream):
// a route's change affects only that chain, and open connections continue for the drain time. A TLS
// listener also has a chain for its hostname that closes unrouted connections: they must not reach
// a listener with a wider hostname.
//
// An external picker never receives headers alone. A picker that waits for bodies would not answer
// a gRPC stream, an upgrade or a multipart upload. Our picker receives these headers and relays
// them with the end of the request (bodyless), a form that every picker answers, as for a GET.
//
// A client's certificate reaches backends in x-forwarded-client-cert, which replaces the client's
// own header; hops forward it. With AllowInsecureFallback it contains the whole certificate,
// because the backend must check it.
//
// Tests: go test ./translator/envoy, with Envoy 1.40 in $ENVOY, .tools/bin or PATH (make envoy).
// e2e_*_test.go tests the effect of the configuration on the real Envoy, over ADS. Goldens
// (testdata/*.txtar, TestEnvoy_Golden) have the model and the resources in one file each.
package envoy
