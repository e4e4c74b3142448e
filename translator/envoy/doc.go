// Package envoy encodes package model's types as Envoy's protos.
//
// Invariants: the package is pure, and equal input gives equal bytes. Refs list every cluster,
// secret and listener that a resource references, because they order the delivery. The HTTP filter
// list never depends on routes, pools or policies: a change would end every stream of the filter
// chain. An error is a bug in Penstock: users' mistakes are detected before encoding.
//
// # Decisions
//
// Besides its routes' filter chains, a TLS listener has a chain for its own hostname. That chain
// closes connections without a route, which must not reach a listener with a wider hostname.
//
// An external picker never receives a gRPC stream, an upgrade or a multipart upload: if it waits
// for the body, it does not answer. Our picker relays only the headers, marked as the whole request
// (bodyless).
//
// Tests: go test ./translator/envoy, with Envoy 1.40 (make envoy). e2e_*_test.go use it;
// TestEnvoy_Golden compares testdata/*.txtar.
package envoy
