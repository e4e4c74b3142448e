// Package imports stores an Offer for each export of a member. Translation reads Offers: the import
// with the export's name then has the member as an exporting cluster, with or without an
// InferencePoolImport. multicluster/set passes the ClusterSet's limits, and calls Assemble with the
// pools that multicluster/registry changed.
//
// This package writes only Offers. A member's Allow limits the namespaces and pools of its exports
// (by default to none), their addresses, and their number. The exporter of an export that is not
// imported gets a Placement with a reason. A silent member keeps its Offers. The Offer of a
// withdrawn export, or of a draining member, gets no new requests. It stays until the registry
// drops the export.
package imports
