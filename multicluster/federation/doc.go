// Package federation exchanges exports with the other members of a cluster set, without a hub and
// without credentials for their API servers. Each member serves its exports to members that may
// import them, and subscribes to the other members, over multicluster/channel with mTLS.
//
// cmd passes the members from the ClusterSet and this cluster's exports from multicluster/export.
// Federation passes members' exports to Config.Apply, as updates of a multicluster/registry.
//
//	federation.go   Federation: the two directions
//	identity.go     the member at the other end of a connection
//	wire.go         the wire form of all messages: CBOR
//	record.go       an export on the wire, and its bounds
//	publisher.go    this cluster's records and their stamps
//	audience.go     which member receives which export
//	placed.go       the state of exports at their importers
//	endpoints.go    endpoints of large pools, in parts
//	shortage.go     which exports had no room, and when to request them again
//	loads.go        reports on the load of pools, for members that request them
//	pace.go         bounds the cost of a member's updates
//	roundtrip.go    round trip times to members
//
// Topics:
//
//	exports   The key "" is the cluster's UID, stamp and state. It is published every 5 s, which
//	          renews the lease. "NAMESPACE/NAME" is the record of an export. If a pool has more
//	          than 64 endpoints, they are in parts with the keys "NAMESPACE/NAME#N": a change of one
//	          endpoint sends about 32 endpoints.
//	imports   The state of members' exports here. The key is "MEMBER/NAMESPACE/NAME"; MEMBER is
//	          the member that receives the item.
//	wanted    The pools whose load an importer requests; keys as in imports.
//	loads     The load of the requested pools; keys as in imports.
//
// The first two resume after a lost connection (channel.Topic.Resume).
//
// Identity: a cluster's name is its SPIFFE trust domain. A member's bundle is valid only for SPIFFE
// IDs of the member's trust domain, so no member can take another member's name. A process presents
// the ID spiffe://TRUSTDOMAIN/penstock; other IDs of the domain are denied.
//
// Renewal: a cluster publishes its bundle, with the next authority long before it signs. A member
// trusts the bundle in its ClusterSet and the last published bundle. So renewals at any time cause
// no failed connection. The published bundle is trusted as long as the ClusterSet keeps the bundle
// that authenticated it.
//
// Wire form: all values are CBOR, with the names of the JSON tags. Lists, maps and depth are
// bounded. A list element takes 32 bytes more of its member's share than on the wire, where an
// empty element takes one byte.
//
// Invariants: a member receives only the exports whose audience includes it. A record that is too
// large or undecodable is skipped and reported, and affects no other record. An item whose key
// names no pool is dropped when its message arrives, and the member's next message waits. A silent
// member withdraws nothing. Private keys and Secrets are never sent.
//
// Config.Apply returns false if a stamp is old or there is no room. After the next update for which
// it returns true, Federation requests all exports of the member again. So it does once there is
// room for parts that exceeded the member's share.
//
// Tests: go test ./multicluster/federation
package federation
