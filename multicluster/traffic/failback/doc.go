// Package failback delays the return of a recovered cluster to its place in an import whose
// clusters serve in an order (selection.policy Priority). Envoys react within milliseconds, so a
// cluster whose readiness flaps once a second would move all requests back and forth.
//
// A Keeper runs as a stage of delivery after a commit. While a cluster is not ready, and until it
// has been ready for selection.Recovery, the import's Failback in the store lists the cluster, and
// translation puts it last. The Failback exists before the cluster is ready again, so no revision
// has it first too early.
//
// Invariants: a cluster that stops being ready comes last without delay. A cluster that this
// process has never seen ready takes its place at once, so neither a start nor a corrected mistake
// causes a delay. A cluster that left the import is dropped after selection.Recovery.
//
// Tests: go test ./multicluster/traffic/failback; with the real Envoy: go test -run Failback
// ./cmd/penstock
package failback
