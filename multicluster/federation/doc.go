// Package federation exchanges exports with the other members of a cluster set, without a hub and
// without credentials of their API servers. Each member serves its exports to the members that they
// are for, and subscribes to theirs, over multicluster/channel with mTLS.
//
// cmd passes the members, from the ClusterSet, and what this cluster exports, from
// multicluster/export. Config.Apply receives what members export, as updates of a
// multicluster/registry.
//
//	federation.go   Federation: the two directions        identity.go   which member is at the other end of a connection
//	wire.go         the wire form of all messages: CBOR
//	record.go       an export on the wire, and its bounds
//	publisher.go    the records of this cluster, and their stamps
//	audience.go     which member receives which export
//	placed.go       where exports stand at their importers
//	endpoints.go    the endpoints of large pools, in parts
//	shortage.go     parts that had no room, which are asked for again
//	loads.go        the load of pools, reported to members that ask for it
//	pace.go         bounds what the updates of a member cost
//	roundtrip.go    how far members are away
//
// Topics:
//
//	exports   The key "" is the cluster's UID, stamp and state. It is published again every 5 s, which renews the lease. "NAMESPACE/NAME" is the record
//	          of an export. A pool of more than 64 endpoints has them in parts, with the keys "NAMESPACE/NAME#N": a change of one endpoint sends some 32
//	          of them again.
//	imports   Where the exports of a member stand here. The key is "MEMBER/NAMESPACE/NAME", with the member that it is for.
//	wanted    The pools of a member whose load an importer asks for, with the same keys.
//	loads     The load of the pools that a member asks for, with the same keys.
//
// The first two resume after a lost connection (channel.Topic.Resume).
//
// Identity: a cluster is a SPIFFE trust domain of its name. The bundle of a member is valid for
// SPIFFE IDs of its own trust domain alone, so no member can take another's name. A process
// presents the ID spiffe://TRUSTDOMAIN/penstock; other IDs of the domain are denied.
//
// Renewal: a cluster publishes its bundle in its state, the next authority long before it signs. A
// member trusts the bundle of its ClusterSet and the one that was published last. So certificates,
// authorities and ClusterSets are renewed at any time without a connection that fails. A published
// bundle is trusted as long as the ClusterSet has the bundle under which it was received.
//
// Wire form: values of all topics are CBOR with the names of the JSON form. Lists, maps and depth
// are bounded, and an element of a list counts as 32 bytes of its member's share: an empty one
// takes one byte on the wire.
//
// Invariants: a member receives only the exports that are for it. A record that is too large, or
// that does not decode, is left out and logged, and affects no other. An item whose key names no
// pool is dropped as its message arrives, and the member's next message waits. A silent member
// withdraws nothing (multicluster/registry). Keys and Secrets never leave.
//
// An Apply that returns false, because a stamp is old or there is no room, has all exports of the
// member sent again once an Apply returns true. So do parts of endpoints that had no room in the
// member's share, once there is room.
//
// Tests: go test ./multicluster/federation
package federation
