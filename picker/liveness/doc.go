// Package liveness determines whether a model server that answered 500 or 503 is dead. A vLLM whose
// engine core was killed answers 500 for 0.1 s. But a working server also answers 500 to a request
// that would fail at every server. Only package picker calls this package.
//
// Dead requests the server's /health repeatedly, until a probe proves that the server is dead or a
// time limit passes. Look probes a server once, in the background; a Sight keeps the results.
//
// Invariants: Dead sends at most one probe to a server at a time, however many requests wait. A
// timeout never makes Dead report a dead server. A Sight never reports that a server is down while
// requests to the server succeed.
package liveness
