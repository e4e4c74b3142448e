// Package envoy encodes the model as Envoy's protos, as resource.Resource. Only translator calls
// it.
//
// Invariants: the package is pure, and equal input gives equal bytes. Refs list every cluster,
// secret and listener that a resource references: delivery orders its steps by them. The HTTP
// filter list never depends on routes, pools or policies, because a change ends every stream of the
// chain. An error is a bug in Penstock: users' mistakes are detected before encoding.
//
// # Decisions
//
// A TLS listener also has a chain for its hostname that closes unrouted connections: they must not
// reach a listener with a wider hostname.
//
// An external picker never receives headers alone: a picker that waits for bodies would not answer
// a gRPC stream, an upgrade or a multipart upload. Our picker relays these headers with the end of
// the request (bodyless).
//
// Tests: go test ./translator/envoy, with Envoy 1.40 (make envoy). e2e_*_test.go use it;
// TestEnvoy_Golden compares testdata/*.txtar.
package envoy
