// Package failback delays the return of a recovered cluster to its place in an import whose
// clusters serve in an order (selection.policy Priority). Envoys react within milliseconds, so a
// flapping cluster would move all requests back and forth.
//
// A Keeper runs as a stage of delivery after a commit. While a cluster is not ready, and until it
// has been ready for selection.Recovery, the import's Failback in the store lists the cluster, and
// translation puts it last. A cluster that this process has never seen ready takes its place at
// once.
package failback
