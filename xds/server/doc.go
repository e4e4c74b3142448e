// Package server speaks ADS with the proxies: delta, and state of the world for clients that know no better.
//
// It turns gRPC messages into what xds/publish understands, and its responses into bytes, most of which were encoded before
// and every stream shares: they are put together by gRPC only. A delta request is not unpacked at all: names are looked up
// where they stand. cmd/penstock registers it on a gRPC server made with Options.
//
// Each stream has two goroutines, gRPC's handler, which decides and sends, and one that receives; both end with the
// stream. Only the handler waits for the proxy to read: a slow proxy delays nobody else, not even the reading of its
// own answers. An idle stream does nothing at all.
//
// Invariants: a proxy reads the one gateway that Config.Authorize allows it, and nothing before the cache is ready for
// that gateway; streams are ended when Run ends.
//
// Tests: go test ./xds/server (FuzzDeltaRequest compares what is read of a request with the generated message); with whole
// proxies: go test ./xds/xdstest/...
package server
