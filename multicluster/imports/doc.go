// Package imports converts members' exports for translation in this cluster: it stores an Offer for
// each export of each member. The import with the export's name then has the member as an exporting
// cluster, with or without an InferencePoolImport.
//
// cmd passes the ClusterSet's limits for each member, and this cluster's pools that are entries of
// their imports. It calls Assemble with the changed pools from multicluster/registry.
//
//	imports.go   Importer: the Offers, within members' limits
//	status.go    entries and conditions of an import
//
// The cost of an update does not grow with the number of the member's exports, unless it exceeds
// the limit.
//
// Invariants: this package writes only Offers. A member's Allow limits its exports: namespaces and
// pools (by default none), addresses, number. The exporter gets a Placement with a reason if its
// export is not imported, if translation cannot use it (SetUnusable), or if another writer has an
// entry of the cluster in the import's status (the Offer stays in use then). A silent member keeps
// its Offers. Offers of a draining member or a withdrawn export stay, without new requests, until
// the registry drops the export. A withdrawn export gets a new Offer only if a record of it was
// restored: an earlier process imported it.
//
// Tests: go test ./multicluster/imports
package imports
