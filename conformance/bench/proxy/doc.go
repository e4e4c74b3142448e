// Package proxy is the smallest Envoy that a control plane can be measured with: a delta ADS client over gRPC that
// subscribes as Envoy does, acknowledges everything at once, and keeps nothing but names and versions.
//
// It reads responses with a few lines of wire format and writes requests from shared bytes, so that a thousand of them
// cost less than the control plane that they are there to measure.
//
// Invariants: every response is acknowledged; Handle functions are called from the stream's one reader, in order; no
// goroutine outlives Close.
//
// Tests: cd conformance && go test ./bench (its crowds are made of proxies)
package proxy
