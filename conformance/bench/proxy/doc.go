// Package proxy is a minimal Envoy for measurements: a delta ADS client over gRPC that subscribes
// like Envoy, acknowledges everything at once, and stores only names and versions.
//
// It decodes responses with a few lines of code, and proxies share the bytes of requests. So a
// thousand proxies cost less CPU than the measured control plane.
//
// Invariants: every response is acknowledged; Handle receives the responses in their order, from
// one goroutine; no goroutine outlives Close.
//
// Tests: cd conformance && go test ./bench (its crowds are made of proxies)
package proxy
