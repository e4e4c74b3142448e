// Package failback keeps a cluster of an import that was not ready from being first again at once,
// where the clusters serve in an order (selection.policy Priority): Envoys follow within
// milliseconds, so a cluster whose readiness flaps once a second would move all requests back and
// forth.
//
// It takes part in delivery, at the stage that reads what is committed. While a cluster is not
// ready, and until it has been ready for selection.Recovery, the store has it in the Failback of
// the import, by which translation puts it last. The object is there before the cluster is ready
// again: so no revision has it first too early.
//
// Invariants: leaving is never delayed. A cluster that this process has never seen ready is first
// as soon as it is, so a start, or a mistake that is corrected, waits for nothing. A cluster that
// leaves the import is forgotten after selection.Recovery.
//
// Tests: go test ./cmd/penstock/internal/failback; with the real Envoy: go test -run Failback
// ./cmd/penstock
package failback
