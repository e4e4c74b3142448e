// Package export decides, by the annotations of pools, which pools this cluster exports to the
// other members of its cluster set, and builds the pools' entries in imports. Decide has no side
// effects. multicluster/set calls Decide, passes the exports to multicluster/federation, and makes
// conditions from decisions and placements.
//
// A pool that other clusters cannot reach is not exported; its condition Exported has the reason.
// No annotation of a pool affects other pools. An export has no names of Secrets and no keys.
package export
