// Package server serves ADS to proxies: delta, and state of the world for clients without delta.
//
// It decodes gRPC messages for xds/publish and encodes its responses. Most bytes of a response are
// encoded before and shared by all streams; gRPC concatenates them. A delta request is not decoded
// into strings: names are read where they are in the message. cmd/penstock registers the server on
// a gRPC server made with Options.
//
// Each stream has two goroutines: gRPC's handler, which decides and sends, and one that receives.
// Both end with the stream. Only the handler waits for the proxy to read, so a slow proxy delays no
// other, not even the receipt of its own answers. An idle stream uses no CPU.
//
// Logs: "NACK received" is one resource that Envoy rejects (`type`, `name`, Envoy's `detail`);
// "connection denied" is a proxy without permission for its gateway (`peer`, `reason`).
//
// Invariants: no message is read before Config.Authenticate has verified the client's credential
// (authenticate.go), and what a client may send is bounded (limits.go). A proxy reads only the
// gateway that its Proxy returns, and nothing before the cache is ready for that gateway. All
// streams end when Run ends.
//
// # What profiles taught
//
// A fan-out is scheduling goroutines, not encoding: bytes are shared, cursors are notified outside
// the log's lock, and a stream selects on three channels. A measurement must start from rest:
// unread ACKs of the turn before make this server look half as slow again as it is.
//
// A storm of reconnects is, more than anything else, decoding initial_resource_versions. So that
// message stays as it came: names are looked up in place, and become neither strings nor a map
// (request.go).
//
// Until a handler asks for a message, gRPC holds a stream to its window of 64 KiB. That is what
// makes it cheap to verify a credential first. Envoy sends a new token only with a new stream, so a
// stream ends when its credential expires.
//
// Tests: go test ./xds/server (FuzzDeltaRequest_EqualsGenerated compares the reader of delta
// requests with the generated message); with whole proxies: go test ./xds/xdstest/...
package server
