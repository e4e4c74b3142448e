// Package liveness finds out whether a model server that has answered 500 or 503 is dead. An engine
// whose process is about to end answers so for a moment: vLLM answers 500 for 0.1 s after its
// engine core was killed, and its /health 503. A server that works answers so, too, to a request
// that it cannot serve: that request fails at every server.
//
// A Checker reads the server's /health until it shows that the server is dead, for Within at most,
// and for two seconds while it does not answer (Dead). Look probes a server once, without a request
// that waits: a Sight keeps whether the server is down. Only package picker calls it, with servers
// of its pools.
//
// Invariants: a server has one probe of Dead at a time and one every pause at most, however many
// requests wait for it; without a request that waits Dead sends no probe; no time limit that has
// passed shows Dead that a server is dead. A Sight is not down while requests to the server
// succeed.
//
// Tests: go test ./picker/liveness
package liveness
