// Package learned stores endpoints of imported pools whose pods this cluster does not list. An
// endpoint that a remote picker names goes into the store, through translation to every Envoy, and
// only then into the answer to the request.
//
// The picker calls Learn for each relayed pick, after it has checked the address against the
// declared ranges; cmd runs Run. An address stays for Config.For after it was last named.
//
// Keepers publish their addresses to the other processes that serve the same Envoys (share.go). So
// an Envoy finds all endpoints at whichever process it reconnects to, and a starting process has
// them before it serves. An expiry is published as a time to live; the latest one counts
// everywhere.
//
// Invariants: Learn returns nil only when every Envoy has the addresses, here and at the other
// processes, except ones that exceed a timeout (a second here, channel.Config.AckTimeout there).
// For a known address Learn takes one read lock.
//
// Tests: go test ./multicluster/learned
package learned
