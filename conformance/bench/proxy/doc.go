// Package proxy is a minimal Envoy for measurements: a delta ADS client over gRPC that acknowledges
// every response at once, and stores only names and versions. Proxies share the bytes of requests,
// so that a thousand of them need less CPU than the measured control plane. Handle receives the
// responses in their order, from one goroutine. Tests: cd conformance && go test ./bench
package proxy
