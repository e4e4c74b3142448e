// Package liveness determines whether a model server that answered 500 or 503 is dead. A dying
// engine sends such answers briefly: after its engine core was killed, vLLM answers 500 for 0.1 s,
// and its /health answers 503. A working server also sends them, to requests that would fail at
// every server.
//
// Dead reads the server's /health until a probe proves that the server is dead: for at most Within,
// or for two seconds while the server does not answer. Look probes a server once, without a waiting
// request; a Sight keeps the result. Only package picker calls this package, with servers of its
// pools.
//
// Invariants: each server has at most one probe of Dead at a time, with a pause before the next
// one, however many requests wait for it. Without a waiting request Dead sends no probe. A timeout
// never makes Dead report a dead server. A Sight is not down while requests to the server succeed.
//
// Tests: go test ./picker/liveness
package liveness
