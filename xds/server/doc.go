// Package server serves ADS to proxies: delta, and state of the world. It decodes gRPC messages for
// xds/publish and encodes its responses. cmd/penstock registers the server on a gRPC server made
// with Options.
//
// Each stream has two goroutines: one receives; the gRPC handler decides and sends, and blocks
// while the proxy does not read.
//
// Invariants: no message is read before Config.Authenticate has verified the client's credential,
// and all input of a client is bounded (limits.go). A proxy reads only the gateway that
// Proxy.Gateway returns, and only once the cache is ready for that gateway.
//
// # Profiling results
//
// A change for many proxies mostly costs scheduling goroutines. So bytes are shared, cursors are
// notified outside the log's lock, and a stream selects from three channels. Many reconnects mostly
// cost decoding initial_resource_versions, so names are read in place.
//
// Tests: go test ./xds/server; with whole proxies: go test ./xds/xdstest/...
package server
