// Package simulate runs three clusters of a set in one process and in virtual time, with faults
// that depend on a seed, and checks invariants. It has only tests.
//
// A node is the production code of set, federation, channel, registry, imports, translator and
// state files. The simulated network implements gRPC's interfaces of a connection and a server. TLS
// handshakes are real; HTTP/2, back-off and keepalive are not simulated. There is no API server.
//
// One goroutine drives a seed. It waits until all other goroutines are blocked (synctest.Wait).
// Then the next event happens. The seed and the name of an event decide when it happens, so the
// same seed gives the same log. A failure prints its seed: make simulate SEED=n replays it.
package simulate
