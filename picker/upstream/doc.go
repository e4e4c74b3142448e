// Package upstream determines how Penstock calls a pool's model servers: with or without TLS, over
// HTTP/1.1 or HTTP/2, as Envoy does (translator/envoy).
//
// Invariants: a Protocol is immutable; a Transport uses no proxy.
package upstream
