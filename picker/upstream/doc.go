// Package upstream determines how Penstock's calls reach a pool's model servers: with or without
// TLS, over HTTP/1.1 or HTTP/2, as Envoy does (translator/envoy). Packages picker, liveness,
// models, endpoint and tokenize use it. Calls of remote pickers, processors and scorers have other
// clients.
//
// Invariants: a Protocol is immutable; a Transport uses no proxy.
//
// Tests: go test ./picker/upstream
package upstream
