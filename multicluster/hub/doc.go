// Package hub is what a hub has decided of a cluster set: which exports of its members are for which other members, what the import of each
// pool has there, and where each export stands. It is the management cluster of the multi-cluster proposal: the members need no Penstock, because
// the objects in their API servers are the whole interface.
//
// cmd reads and writes the objects. It passes the members (SetMembers), what each exports (Exports, once all of its objects are read), whether its API
// server answers (Contact, Lost), and what was written there (Written). In return it gets the status of each import (Import), the condition of each export
// (Condition), and calls when one of them may have changed.
//
//	hub.go    Hub: members, and what passes between them        standing.go   where exports stand
//	peers.go  what members export to Penstocks behind the hub   frompeers.go  and what these export to members
//
// Each member has a registry (multicluster/registry) of what the others export to it, and an importer (multicluster/imports). So a
// withdrawn export drains, a silent member withdraws nothing, and what a member is allowed limits it, as between Penstocks that exchange exports themselves.
// Endpoints of pools stay out: they never pass through an API server.
//
// Peers are the other kind of members: their Penstocks receive through this process what the Members export (SetPeers, Publication), with endpoints, and
// report back where it stands (Config.Placements). What peers export reaches the members as what a member exports does (Apply), with the peers' own UIDs
// and stamps, as far as the peers name these members and a gateway without certificates can use it; Standings is where it stands there, for the peers. No
// object of a peer is read or written. What a member is allowed limits what peers receive of it, too.
// A member is published for once it has been read, and its lease at the peers is renewed while its API server answers: one that is silent withdraws
// nothing. After a restart, and after a change, peers are waited for, for Config.Grace, before the condition Exported states that they have not reported.
//
// Restart: what a member's imports have from this hub already is taken over (Member.Restored), as exports of Unreachable clusters, until
// these clusters have been read. Settled reports whether they have, or whether the hub has waited for them: before that no entry of theirs is written or removed.
//
// Invariants: a member that does not answer delays no other, beyond the entries that it has itself, and these for Config.Grace at most. The same facts, in any
// order and after any restart, end with the same imports and conditions. Memory grows with members times exports.
//
// Tests: go test ./multicluster/hub
package hub
