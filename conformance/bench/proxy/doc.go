// Package proxy is a minimal Envoy for measurements: a delta ADS client over gRPC that subscribes
// like Envoy, acknowledges every response at once, and stores only names and versions. Proxies
// share the bytes of requests, so a thousand proxies cost less CPU than the measured control plane.
//
// Invariants: Handle receives the responses in their order, from one goroutine; no goroutine
// outlives Close. Tests: cd conformance && go test ./bench
package proxy
