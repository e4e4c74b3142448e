// Package server serves ADS to proxies: delta, and state of the world for clients without delta.
//
// It decodes gRPC messages for xds/publish and encodes its responses. All streams share most bytes
// of a response; gRPC concatenates them. Names in a delta request are read in place, not decoded
// into strings. cmd/penstock registers the server on a gRPC server made with Options.
//
// Each stream has two goroutines: gRPC's handler, which decides and sends, and one that receives.
// Both end with the stream. Only the handler waits for the proxy to read, so a slow proxy delays
// neither other proxies nor the receipt of its requests. An idle stream uses no CPU.
//
// Logs: "NACK received" reports one resource that Envoy rejects (`type`, `name`, Envoy's `detail`).
// "connection denied" reports a proxy without permission for its gateway (`peer`, `reason`).
//
// Invariants: no message is read before Config.Authenticate has verified the client's credential
// (authenticate.go), and all input of a client is bounded (limits.go). A proxy reads only the
// gateway that Proxy.Gateway returns, and only once the cache is ready for that gateway. All
// streams end when Run ends.
//
// # Profiling results
//
// A fan-out mostly costs scheduling goroutines, not encoding: bytes are shared, cursors are
// notified outside the log's lock, and a stream selects from three channels. Let the server become
// idle before a measurement: unread ACKs of the previous round add half to the measured time.
//
// A reconnection storm mostly costs decoding initial_resource_versions, so names are read in place.
//
// Tests: go test ./xds/server (FuzzDeltaRequest_EqualsGenerated compares the reader of delta
// requests with the generated message); with whole proxies: go test ./xds/xdstest/...
package server
