// Package imports converts members' exports for translation in this cluster: it stores an Offer for
// each export. The import with the export's name then has the member as an exporting cluster, with
// or without an InferencePoolImport. cmd passes the ClusterSet's limits, and calls Assemble with
// the changed pools from multicluster/registry.
//
// This package writes only Offers. A member's Allow limits the namespaces and pools of its exports
// (by default to none), their addresses, and their number. The exporter of an export that is not
// imported gets a Placement with a reason. A silent member keeps its Offers. Offers of a draining
// member or a withdrawn export stay, without new requests, until the registry drops the export.
package imports
