// Package failback delays the return of a recovered cluster in imports whose clusters serve in
// order (selection.policy Priority). Envoys react within milliseconds, so a flapping cluster would
// move all requests back and forth.
//
// A Keeper runs as a stage of delivery after a commit. Until a cluster has been ready for
// selection.Recovery, the import's Failback in the store lists it, and translation puts it last. A
// cluster that is ready for the first time takes its place at once.
package failback
