// Package hub decides what a hub writes into the members of a cluster set: which exports of a
// member the others import, what each import has, and where each export stands. A hub is the
// management cluster of the multi-cluster proposal. Its members need no Penstock: the objects in
// their API servers are the whole interface.
//
// cmd reads and writes the objects. It passes the members (SetMembers), what each exports (Exports,
// once all of its objects are read), whether its API server answers (Contact, Lost), and what was
// written there (Written). In return it gets the status of each import (Import) and the condition
// of each export (Condition). Config.Imports and Config.Exports are called when one of them may
// have changed.
//
//	hub.go        Hub: its members, and what each receives of the others
//	standing.go   where exports stand
//	fit.go        exports that no import may have
//
// Each member has a registry (multicluster/registry) of what the others export to it, and an
// importer (multicluster/imports). So the rules of Penstocks that exchange exports themselves hold
// here, too: a withdrawn export drains, a silent member withdraws nothing, and `allow` limits each
// member. Endpoints of pools do not pass through an API server.
//
// Restart: Restore takes over the entries that a member's imports have from this hub, as exports of
// Unreachable clusters, until these clusters have been read. Settled reports whether a cluster has
// been read, or is waited for no longer. Before that, no entry of that cluster is written or
// removed.
//
// Trust: a member's API server may return objects that no API server accepts. An export that no
// import may have is Unread in the registries of the others: its version before stays, and no
// import is written with it, which an API server would reject with all other entries.
//
// Invariants: a member that does not answer delays no other, except for the entries of its own
// exports, and these for Config.Grace at most. The same facts, in any order and after any restart,
// end with the same imports and conditions. Memory grows with members times exports.
//
// Tests: go test ./multicluster/hub
package hub
