// Package simulate runs three clusters of a set in one process and in virtual time, with faults
// that depend on a seed, and checks invariants. It has only tests.
//
//	simulate_test.go    the tests, and how many seeds they run
//	world_test.go       the world of a seed: its events, its log, its end
//	node_test.go        a cluster: its objects and its processes
//	network_test.go     the network: connections, latency, partitions; stream_test.go: calls
//	disk_test.go        the disk: what a power cut leaves
//	faults_test.go      random changes of users, and faults
//	mistakes_test.go    known mistakes that the simulation must find (tag faults)
//	hostile_test.go     messages of a hostile member
//	invariants_test.go  the invariants
//
// A node is the production code of set, federation, channel, registry, imports, translator and
// state files. The simulated network implements gRPC's interfaces of a connection and a server,
// below channel. It moves encoded messages; TLS handshakes are real. It does not simulate HTTP/2,
// gRPC's back-off and keepalive (it has the same times), nor the server's codec. There is no API
// server: nodes keep their state in files.
//
// One goroutine drives a seed. It waits until all other goroutines are blocked (synctest.Wait).
// Then the next event happens: a message arrives, a connection is made, a fault begins. The seed
// and the name of an event decide when it happens, never the order in which goroutines ran. So the
// same seed gives the same log. The federation's debounce is needed for this: it makes one response
// of all publications at one instant.
//
// A failure prints its seed: make simulate SEED=n replays it, and prints its log.
//
// Tests: go test ./multicluster/set/simulate
package simulate
