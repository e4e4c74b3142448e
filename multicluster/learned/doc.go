// Package learned keeps the endpoints of imported pools whose pods this cluster is not told: a remote picker names one,
// and it goes into the store, from there through translation to every Envoy, and only then into the answer to the request
// that asked.
//
// The picker calls Learn for each relayed pick (it has checked the address against the declared ranges); cmd runs Run. An
// address stays for a while after it was named last.
//
// Invariants: Learn returns nil only when every connected Envoy has the addresses. The way of an address that is known
// already takes one read lock.
//
// Tests: go test ./multicluster/learned
package learned
