// Package federation exchanges exports with the other members of a cluster set. It uses
// multicluster/channel with mTLS, and needs neither a hub nor credentials for members' API servers.
// It passes members' exports to Config.Apply, as updates of a multicluster/registry. Topics:
//
//	exports   The key "" is the cluster's state; publishing it every 5 s renews the lease.
//	          "NAMESPACE/NAME" is an export's record, "NAMESPACE/NAME#N" is a part of its endpoints.
//	imports   The state of members' exports here. Keys: "MEMBER/NAMESPACE/NAME"; MEMBER receives it.
//	wanted    The pools whose load an importer requests. Keys are as in imports.
//	loads     The load of the requested pools. Keys are as in imports.
//
// A cluster's name is its SPIFFE trust domain. A member's bundle is valid only for SPIFFE IDs of
// the member's trust domain, so no member can take another member's name. A published bundle is
// trusted as long as the ClusterSet keeps the bundle that authenticated it.
//
// A record that is too large or undecodable is skipped and reported, and affects no other record. A
// silent member withdraws nothing. Private keys and Secrets are never sent.
//
// Config.Apply returns false if it dropped an export, because the export has an old stamp or no
// room. Federation then requests all exports of the member again, after the next update that Apply
// accepts.
package federation
