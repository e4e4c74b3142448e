// Package imports converts members' exports to what this cluster's translation reads: an Offer in
// the store for each export of each member. An import of that name then has the member as an
// exporting cluster, with or without an InferencePoolImport.
//
// cmd passes the ClusterSet's limits for each member and the own pools that are entries of their
// imports, and calls Assemble with the changed pools from the multicluster/registry. Status returns
// the status of an import.
//
//	imports.go   Importer: the Offers, within members' limits
//	status.go    entries and conditions of an import
//
// The cost of an update does not grow with the number of its member's exports, unless that exceeds
// the limit.
//
// Invariants: this package writes only Offers. A member's exports are limited by its Allow:
// namespaces or pools (none without), ranges, number. For an export that is not imported, the
// exporter gets a Placement with a reason. So it does if the import's status has another writer's
// entry of the cluster, although the Offer counts, and if translation cannot use the export
// (SetUnusable). A silent member keeps its Offers. A member that drains or withdraws an export
// keeps them with weight 0 until the registry collects them. A withdrawn export without an Offer
// gets none, unless a record of it was restored: an earlier process imported it.
//
// Tests: go test ./multicluster/imports
package imports
