// Package proxy is a minimal Envoy: a delta ADS client that acknowledges each response at once, and
// stores only names and versions. Proxies share the bytes of requests, so that a thousand need less
// CPU than the control plane. One goroutine calls Handle. Tests: cd conformance && go test ./bench
package proxy
