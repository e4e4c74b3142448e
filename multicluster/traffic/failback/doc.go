// Package failback delays the return of a recovered cluster in imports that send all requests to
// the first ready cluster in order (selection.policy Priority). Without the delay, a cluster that
// is ready and not ready in turns would move all requests back and forth, because Envoys react
// within milliseconds.
//
// A Keeper runs as a stage of delivery after a commit. Until a cluster has been ready for
// selection.Recovery, the import's Failback in the store lists it, and translation puts it last. A
// cluster that is ready for the first time takes its place at once.
package failback
