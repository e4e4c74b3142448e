// Package imports makes of what members export what this cluster's translation reads: an Offer in
// the store for each export of each member. An import of that name then has the member as an
// exporting cluster, whether its InferencePoolImport exists or not.
//
// cmd passes what the ClusterSet allows each member, and which pools of this cluster are entries of
// their imports too, and calls Assemble with the pools that the multicluster/registry returns as
// changed. Status has what the status of an import is to have.
//
//	imports.go   Importer: the Offers, within what members are allowed        status.go   entries and conditions of an import
//
// What an update costs does not grow with what its member exports, unless that is more than it is
// allowed.
//
// Invariants: the Offers are the only thing that this package writes. A member's exports are within
// what its Allow names: namespaces or pools (none without), ranges, number. What is not imported is
// returned as a Placement with a reason, for its exporter; so is an export whose entry in the
// import's status is another's, though its Offer counts, and one that translation cannot use
// (SetUnusable). A member that is silent keeps its Offers; one that drains, or withdraws an export,
// keeps them with weight 0 until the registry collects them. Without an Offer, a withdrawn export
// gets none, unless a record of it was restored: a process before this one imported it.
//
// Tests: go test ./multicluster/imports
package imports
