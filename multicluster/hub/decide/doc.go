// Package decide decides what a hub writes into the members of a cluster set: the imports of each
// member, and the state of each export. The hub is the management cluster of the multi-cluster
// proposal; its members need no Penstock. Package hub reads and writes the objects.
//
// Each member has a registry (multicluster/registry) of exports to it, and an importer
// (multicluster/imports). So the same rules apply as between Penstocks: a withdrawn export drains,
// a silent member withdraws nothing, and `allow` limits each member. After a restart, Restore
// receives the hub's earlier entries in a member's imports. Until a cluster is Settled, its entries
// are neither written nor removed.
//
// A member that does not respond delays only the entries of its own exports, for at most
// Config.Grace. The same facts, in any order and after any restart, lead to the same imports and
// conditions.
package decide
