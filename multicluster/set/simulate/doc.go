// Package simulate runs three clusters of a set in one process and in virtual time, with faults
// that depend on a seed, and checks invariants. It has only tests.
//
// A node runs the production code of set, federation, channel, registry, imports, translator and
// state files. The simulated network implements gRPC's interfaces of a connection and a server. TLS
// handshakes are real. HTTP/2, back-off and keepalive are not simulated. There is no API server.
//
// One goroutine runs the events of a seed. It waits until all other goroutines are blocked
// (synctest.Wait), then runs the next event. An event's time depends only on the seed and the
// event's name, so equal seeds give equal logs. A failure prints its seed: make simulate SEED=n
// replays it.
package simulate
