// Package federation exchanges exports with the other members of a cluster set, without a hub and without credentials of their API servers.
// Each member serves what it exports to the members that it names, and subscribes to theirs, over multicluster/channel with mTLS.
//
// cmd passes the members, from the ClusterSet, and what this cluster exports, from multicluster/export. What members export goes to a
// multicluster/registry as updates.
//
//	federation.go   Federation: the two directions        identity.go   which member is at the other end of a connection
//	record.go       the wire form of an export, and its bounds
//	placed.go       where exports stand at their importers
//
// The topic exports has the cluster's UID, stamp and state as the key "", published again every 5 s, which renews the lease; and what
// the cluster exports: key is "NAMESPACE/NAME", value the record. The topic imports has where a member's exports stand here: key is
// "MEMBER/NAMESPACE/NAME".
//
// Identity: a cluster is a SPIFFE trust domain. A member's bundle vouches for SPIFFE IDs of its own trust domain alone, so no member can
// take another's name. A process presents the ID spiffe://TRUSTDOMAIN/penstock; other IDs of the domain are denied.
//
// Invariants: a member receives only the exports that are for it. A record that is too large, or that does not decode, is left out and
// logged, and harms no other. A member that falls silent withdraws nothing (multicluster/registry). Keys and Secrets never leave.
//
// Tests: go test ./multicluster/federation
package federation
