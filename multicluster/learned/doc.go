// Package learned keeps the endpoints of imported pools whose pods this cluster does not list. A
// remote picker names an endpoint; it goes into the store, from there through translation to every
// Envoy, and only then into the answer to the request that asked.
//
// The picker calls Learn for each relayed pick, after it has checked the address against the
// declared ranges; cmd runs Run. An address stays for Config.For after it was named last.
//
// Keepers publish what they learn to the other processes that serve the same Envoys (share.go), so
// an Envoy finds all endpoints again at whichever process it reconnects to, and a process that
// starts has them before it serves. An expiry is published as a time to live, and the latest one
// counts everywhere.
//
// Invariants: Learn returns nil only when every Envoy has the addresses, here and at the other
// processes, those that exceed a timeout excepted (a second here, channel.Config.AckTimeout there).
// For a known address Learn takes one read lock.
//
// Tests: go test ./multicluster/learned
package learned
