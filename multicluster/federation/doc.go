// Package federation exchanges exports with the other members of a cluster set, without a hub and
// without credentials for their API servers. Each member serves exports to their audience and
// subscribes to the other members, over multicluster/channel with mTLS.
//
// cmd passes the members from the ClusterSet and this cluster's exports from multicluster/export.
// Config.Apply receives members' exports as updates of a multicluster/registry.
//
//	federation.go   Federation: the two directions
//	identity.go     the member at the other end of a connection
//	wire.go         the wire form of all messages: CBOR
//	record.go       an export on the wire, and its bounds
//	publisher.go    this cluster's records and their stamps
//	audience.go     which member receives which export
//	placed.go       the state of exports at their importers
//	endpoints.go    endpoints of large pools, in parts
//	shortage.go     parts that had no room and are requested again
//	loads.go        the load of pools, for members that request it
//	pace.go         bounds the cost of a member's updates
//	roundtrip.go    round trip times to members
//
// Topics:
//
//	exports   The key "" is the cluster's UID, stamp and state. It is published every 5 s, which
//	          renews the lease. "NAMESPACE/NAME" is the record of an export. Above 64, endpoints
//	          of a pool come in parts, with the keys "NAMESPACE/NAME#N": a change of one endpoint
//	          sends about 32 again.
//	imports   The state of members' exports here. The key is "MEMBER/NAMESPACE/NAME", with the
//	          member that receives it.
//	wanted    The pools whose load an importer requests, with the same keys.
//	loads     The load of the requested pools, with the same keys.
//
// The first two resume after a lost connection (channel.Topic.Resume).
//
// Identity: a cluster's name is its SPIFFE trust domain. A member's bundle is valid only for SPIFFE
// IDs of its own trust domain, so no member can take another's name. A process presents the ID
// spiffe://TRUSTDOMAIN/penstock; other IDs of the domain are denied.
//
// Renewal: a cluster publishes its bundle in its state, and the next authority long before it
// signs. A member trusts its ClusterSet's bundle and the last published one, so certificates,
// authorities and ClusterSets are renewed at any time without a failed connection. A published
// bundle is trusted as long as the ClusterSet keeps the bundle under which it was received.
//
// Wire form: all values are CBOR with the names of the JSON form. Lists, maps and depth are
// bounded. A list element counts as 32 bytes of its member's share, because an empty one takes one
// byte on the wire.
//
// Invariants: a member receives only the exports whose audience includes it. A record that is too
// large or undecodable is skipped and logged, and affects no other. An item whose key names no pool
// is dropped when its message arrives, and the member's next message waits. A silent member
// withdraws nothing (multicluster/registry). Keys and Secrets never leave.
//
// After an Apply that returns false, because a stamp is old or there is no room, the next one that
// returns true requests all exports of the member again. Parts of endpoints without room in the
// member's share are requested again once there is room.
//
// Tests: go test ./multicluster/federation
package federation
