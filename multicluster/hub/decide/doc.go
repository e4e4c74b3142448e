// Package decide computes what a hub writes into the members of a cluster set: the imports of each
// member, and the condition of each export. The hub is the management cluster of the multi-cluster
// proposal; its members need no Penstock. Package hub reads and writes the objects.
//
// The hub keeps a registry (multicluster/registry) of the exports to each member, and an importer
// (multicluster/imports) for each member. So the same rules apply as between Penstocks: a withdrawn
// export drains, a silent member withdraws nothing, and `allow` limits each member. After a
// restart, Restore receives the hub's earlier entries in a member's imports. Until a member is
// Settled, the entries of its exports are neither written nor removed.
//
// A member that does not respond delays only the entries of its own exports, for at most
// Config.Grace. The same facts, in any order and after any restart, lead to the same imports and
// conditions.
package decide
