// Package imports makes of what members export what this cluster's translation reads: an Offer in the store for each export of each member.
// An import of that name then has the member as an exporting cluster, whether its InferencePoolImport exists or not.
//
// cmd passes what the ClusterSet allows each member, and calls Assemble with the pools that the multicluster/registry returns as changed.
//
// Invariants: the Offers are the only thing that this package writes. A member's exports are within what its Allow names: namespaces,
// ranges, number. What is not imported is returned as a Placement with a reason, for its exporter. A member that is silent keeps its
// Offers; one that drains, or withdraws an export, keeps them with weight 0 until the registry collects them.
//
// Tests: go test ./multicluster/imports
package imports
