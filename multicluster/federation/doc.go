// Package federation exchanges exports with the other members of a cluster set, without a hub and without credentials of their API servers.
// Each member serves what it exports to the members that it names, and subscribes to theirs, over multicluster/channel with mTLS.
//
// cmd passes the members, from the ClusterSet, and what this cluster exports, from multicluster/export. What members export goes to a
// multicluster/registry as updates.
//
//	federation.go   Federation: the two directions        identity.go   which member is at the other end of a connection
//	record.go       the wire form of an export, and its bounds
//	placed.go       where exports stand at their importers
//	endpoints.go    the endpoints of large pools, in parts
//	loads.go        what clusters report of the load of pools, to members that ask for it
//	roundtrip.go    how far members are away
//
// The topic exports has the cluster's UID, stamp and state as the key "", published again every 5 s, which renews the lease; and what
// the cluster exports: key is "NAMESPACE/NAME", value the record. A pool of more than 64 endpoints has them in parts, with the keys
// "NAMESPACE/NAME#N": a change of one endpoint sends some 32 of them again. The topic imports has where a member's exports stand here: key is
// "MEMBER/NAMESPACE/NAME". The topic wanted has the pools whose load an importer asks for, and the topic loads has that; key is
// "MEMBER/NAMESPACE/NAME" with the member that it is for. The first two resume after a lost connection (channel.Topic.Resume).
//
// Identity: a cluster is a SPIFFE trust domain of its name. A member's bundle vouches for SPIFFE IDs of its own trust domain alone, so no member can
// take another's name. A process presents the ID spiffe://TRUSTDOMAIN/penstock; other IDs of the domain are denied.
//
// Renewal: a cluster publishes its bundle in its state, the next authority long before it signs. A member trusts the bundle of its ClusterSet
// and the one that was published last, so that certificates, authorities and ClusterSets are renewed at any time without a connection that
// fails. A published bundle is trusted as long as the ClusterSet has the bundle that vouched for its connection.
//
// Invariants: a member receives only the exports that are for it. A record that is too large, or that does not decode, is left out and
// logged, and harms no other. A member that falls silent withdraws nothing (multicluster/registry). Keys and Secrets never leave.
//
// Tests: go test ./multicluster/federation
package federation
