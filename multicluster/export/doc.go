// Package export decides, by the annotations of pools, which pools this cluster exports to the
// other members of its cluster set. It builds the entry of each exported pool in other clusters'
// imports.
//
// Decide is pure. It reads the store and values from cmd: the addresses of this cluster's Penstock
// picker, and the endpoints and Gateways of pools, by translation. cmd passes the exports to
// multicluster/federation. It makes conditions from decisions and the placements in
// multicluster/registry.
//
//	annotations.go   the annotations of a pool
//	entry.go         a pool's entry in other clusters' imports
//	export.go        Decide
//	exported.go      the condition Exported
//	service.go       a picker's Service as other clusters reach it
//
// Invariants: a pool that other clusters cannot reach is not exported, and its condition has the
// reason. No annotation of a pool affects other pools. An export has no names of Secrets and no
// keys.
//
// Tests: go test ./multicluster/export
package export
