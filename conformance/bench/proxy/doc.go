// Package proxy is a minimal Envoy for measurements: a delta ADS client over gRPC that subscribes
// like Envoy, acknowledges everything at once, and stores only names and versions.
//
// It decodes responses with a few lines of code and sends requests from shared bytes, so that a
// thousand proxies cost less than the control plane that they measure.
//
// Invariants: every response is acknowledged; the stream's reader calls Handle in order; no
// goroutine outlives Close.
//
// Tests: cd conformance && go test ./bench (its crowds are made of proxies)
package proxy
