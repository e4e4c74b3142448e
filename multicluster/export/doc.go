// Package export decides what this cluster exports to the other members of its cluster set: the
// pools whose annotations ask for it, and for each the entry of an import by which others reach it.
//
// Decide is pure. It reads the store, and what cmd passes of the rest: where this cluster's own
// picker is reached, a pool's endpoints and the Gateways that route to it, which translation has
// decided. cmd gives the exports to multicluster/federation, and the conditions to the board of
// reports, together with the placements of the multicluster/registry.
//
//	annotations.go   what the annotations of a pool ask for        entry.go    how others reach a pool
//	export.go        Decide                                       exported.go  the condition Exported
//	service.go       how others reach the Service of a picker
//
// Invariants: a pool that can't be reached from elsewhere is not exported, and its condition states
// why. Whatever an annotation has, the other pools are exported. An export names no Secret and has
// no key.
//
// Tests: go test ./multicluster/export
package export
