// Package learned keeps the endpoints of imported pools whose pods this cluster is not told: a remote picker names one,
// and it goes into the store, from there through translation to every Envoy, and only then into the answer to the request
// that asked.
//
// The picker calls Learn for each relayed pick (it has checked the address against the declared ranges); cmd runs Run. An
// address stays for a while after it was named last.
//
// Other processes that serve the same Envoys are told (share.go), so that an Envoy finds all endpoints again whichever process
// it comes back to, and a process that starts asks the others before it serves. An end is told as a time that is left, and
// the latest end counts everywhere.
//
// Invariants: Learn returns nil only when every Envoy has the addresses, here and at the other processes (but for those that
// are late: a second here, what multicluster/channel says there). The way of an address that is known already takes one read lock.
//
// Tests: go test ./multicluster/learned
package learned
