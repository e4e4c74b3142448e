// Package parties plays the parties around a Penstock in tests that run the built binary: honest
// and hostile members of a cluster set, and publishers of KV events.
//
//	ca.go        CA: the authority of a cluster
//	honest.go    Honest: a member that exports one pool
//	member.go    Publisher: a member that sends what a test wants, over the real channel
//	kvevents.go  KVPublisher: the PUB socket of a model server
//
// It has no tests of its own; conformance/promises/attacks uses it.
package parties
