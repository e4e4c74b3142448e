// Package federation exchanges exports with the other members of a cluster set, without a hub and without credentials of their API servers.
// Each member serves what it exports to the members that it names, and subscribes to theirs, over multicluster/channel with mTLS.
//
// cmd passes the members, from the ClusterSet, and what this cluster exports, from multicluster/export. What members export goes to a
// multicluster/registry as updates.
//
//	federation.go   Federation: the two directions        identity.go   which member is at the other end of a connection
//	record.go       the wire form of an export, and its bounds
//	publisher.go    the records of one cluster, and their stamps
//	audience.go     which member receives what
//	placed.go       where exports stand at their importers
//	endpoints.go    the endpoints of large pools, in parts
//	loads.go        what clusters report of the load of pools, to members that ask for it
//	roundtrip.go    how far members are away
//	relay.go        a hub's end: it relays what members publish     relayed.go   a member's end of that
//	voucher.go      the bundle of a member that a hub relays
//	represent.go    what a hub publishes for members that run no Penstock, and receives for them
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
// fails. A published bundle is trusted as long as the ClusterSet has the bundle that vouched for its connection. A hub publishes its own likewise, with
// the key "". Between a hub and its members such a bundle is trusted until the process ends: no registry keeps it.
//
// Hub: members that each name one hub, and not each other, exchange the same through it (Config.Hub, Member.Hub). A hub subscribes to the topics of its
// members and publishes each item unchanged, its key with the exporter's name and "/" before it. To a hub alone an exporter publishes, with the key
// "NAMESPACE/NAME#to", which members an export is for. A hub publishes what it has of a member once that is all, beginning with the member's key "";
// of a member that it has not reached since its start it has nothing. Member.Hub receives nothing for a member with an address of its own.
//
// Represented members run no Penstock: the hub publishes for them what cmd has read in their API servers (Represent), and the others receive it as if
// such a member had published it. Their state is the hub's word: the UID names the cluster and the hub together, epoch and sequence are the hub's. So an
// older process of the hub neither revives nor withdraws, and another hub takes its place once the lease that the one before has renewed has expired. State
// and records come together, once all of a member is known; state is published again while its API server answers. A represented member that is silent,
// or was not read yet, or is none of the hub's any more, has nothing withdrawn. It asks for no load and reports none; where its exports stand is
// kept as members report it (Placements). No certificate is valid for its name. The other way round, cmd receives what each member exports (Config.Passed):
// which represented members it is for, its own UID and stamps, and no endpoints; and where it stands there is published to the exporter as if these members
// had reported it (RepresentPlaced). What is not decided yet is not published, so that a hub that starts again takes no report back.
//
// What a hub is trusted for: that what it publishes under a member's name is that member's, and that it passes exports on to those alone that
// they are for. An importer receives of it the members that its ClusterSet lists without an address, and no others: neither its own name, nor that of a
// member with an address, whose own stream counts. What each of these may do here is what its own Allow names, as without a hub. UIDs and stamps are the exporter's, so an
// old hub, or one whose member was restored from a backup, neither revives nor withdraws. A hub vouches for no member: where the ClusterSet has a bundle of
// one without an address, a bundle that the hub relays is trusted if that member has signed it with a certificate of one that is trusted
// already (voucher), else not. The hub's own bundle counts for connections to the hub alone. So a hub that is hostile can lead requests for the members behind it to
// addresses within their Allow, and withdraw what they export, and nothing else. Of a represented member it is trusted for the same, and its stamps do not
// bind it; in a represented member it writes what it likes within the permissions that this one gives it, whatever others export. A hub that is lost, or starts anew, withdraws nothing.
//
// Invariants: a member receives only the exports that are for it. A record that is too large, or that does not decode, is left out and
// logged, and harms no other. A member that falls silent withdraws nothing (multicluster/registry). Keys and Secrets never leave.
//
// Tests: go test ./multicluster/federation
package federation
