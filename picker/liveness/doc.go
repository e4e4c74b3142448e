// Package liveness determines whether a model server that answered 500 or 503 is dead. A vLLM whose
// engine core was killed answers 500 for 0.1 s, but a working server also sends 500 to requests
// that would fail at every server. Only package picker calls this package.
//
// Dead reads the server's /health until a probe proves that the server is dead. Look probes a
// server once, without a waiting request; a Sight keeps the result.
//
// Invariants: each server has at most one probe of Dead at a time, however many requests wait. A
// timeout never makes Dead report a dead server. A Sight is not down while requests to the server
// succeed.
package liveness
