// Package export decides which pools this cluster exports to the other members of its cluster set,
// by their annotations, and builds the entry of each in other clusters' imports.
//
// Decide is pure. It reads the store and values from cmd: the addresses of this cluster's own
// picker, and translation's results on a pool's endpoints and Gateways. cmd passes the exports to
// multicluster/federation, and the conditions to the board of reports, together with the placements
// of the multicluster/registry.
//
//	annotations.go   the annotations of a pool
//	entry.go         a pool's entry in other clusters' imports
//	export.go        Decide
//	exported.go      the condition Exported
//	service.go       a picker's Service as other clusters reach it
//
// Invariants: a pool that other clusters cannot reach is not exported, and its condition has the
// reason. No annotation of a pool affects other pools. An export names no Secret and has no key.
//
// Tests: go test ./multicluster/export
package export
