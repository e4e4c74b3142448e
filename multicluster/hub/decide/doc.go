// Package decide decides what a hub writes into the members of a cluster set: the exports that each
// member imports, the entries of each import, and the state of each export. The hub is the
// management cluster of the multi-cluster proposal. Its members need no Penstock: the objects in
// their API servers are the whole interface.
//
// cmd reads and writes the objects. It passes the members (SetMembers), each member's exports once
// all its objects are read (Exports), whether its API server responds (Contact, Lost), and what was
// written there (Written). In return it gets the status of each import (Import) and the condition
// of each export (Condition). Config.Imports and Config.Exports are called when these may have
// changed.
//
//	hub.go        Hub: its members, and what each receives from the others
//	standing.go   the state of exports
//	fit.go        exports that no import may have
//
// Each member has a registry (multicluster/registry) of exports to it, and an importer
// (multicluster/imports). So the rules of Penstocks that exchange exports hold here, too: a
// withdrawn export drains, a silent member withdraws nothing, and `allow` limits each member.
// Endpoints of pools do not pass through an API server.
//
// Restart: Restore passes the hub's entries in a member's imports, as exports of Unreachable
// clusters, until these clusters are read. Settled reports whether a cluster was read or its grace
// period ended. Until then, none of its entries is written or removed.
//
// Trust: a member's API server may return objects that no real API server accepts. An export that
// no import may have is Unread in the others' registries and its previous version stays: an API
// server would reject the import with all its entries.
//
// Invariants: a member that does not respond delays only the entries of its own exports, for at
// most Config.Grace. The same facts, in any order and after any restart, lead to the same imports
// and conditions. Memory grows with members times exports.
//
// Tests: go test ./multicluster/hub/decide
package decide
