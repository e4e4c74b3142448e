// Package liveness determines whether a model server that answered 500 or 503 is dead. A dying
// engine sends such answers briefly: after its engine core was killed, vLLM answers 500 for 0.1 s,
// and its /health 503. A working server sends them to requests that it cannot serve, which fail at
// every server.
//
// A Checker reads the server's /health until it proves dead, for at most Within, and for two
// seconds while it does not answer (Dead). Look probes a server once, without a waiting request; a
// Sight keeps whether the server is down. Only package picker calls it, with servers of its pools.
//
// Invariants: a server has one probe of Dead at a time, at most one per pause, however many
// requests wait for it; without a waiting request Dead sends no probe; a timeout never makes Dead
// report a dead server. A Sight is not down while requests to the server succeed.
//
// Tests: go test ./picker/liveness
package liveness
