// Package learned stores endpoints of imported pools whose pods this cluster does not list. An
// endpoint that a remote picker names is stored and translated. The request is answered only after
// every Envoy has the endpoint.
//
// The picker calls Learn for each relayed pick, after it has checked the address against the
// declared ranges; cmd runs Run. An address stays for Config.For after it was last named.
//
// Keepers publish their addresses to the other processes that serve the same Envoys (share.go). So
// an Envoy gets all endpoints from any process that it reconnects to, and a starting process has
// them before it serves. An expiry is published as a time to live; all processes use the latest
// expiry.
//
// Invariants: Learn returns nil only when every Envoy has the addresses, here and at the other
// processes. It waits at most a second for Envoys here, and channel.Config.AckTimeout for other
// processes. For a known address Learn takes one read lock.
//
// Tests: go test ./multicluster/learned
package learned
