// Package imports stores an Offer for each export of a member. For each Offer, translation adds the
// member as an exporting cluster to the import with the export's name. No InferencePoolImport is
// needed. multicluster/set passes the ClusterSet's limits, and calls Assemble with the pools that
// multicluster/registry changed.
//
// This package writes only Offers. The `allow` of a member in the ClusterSet limits which
// namespaces and pools it may export here (by default none), their addresses, and their number. If
// an export is not imported, its exporter receives a Placement with a reason. A silent member keeps
// its Offers. The Offer of a withdrawn export, or of a draining member, receives no new requests.
// It stays until the registry drops the export.
package imports
