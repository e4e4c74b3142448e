// Package decide decides what a hub writes into the members of a cluster set: the exports that each
// member imports, the entries of each import, and the state of each export. The hub is the
// management cluster of the multi-cluster proposal. Its members need no Penstock: the objects in
// their API servers are the whole interface.
//
// Package hub reads and writes the objects. It passes the members (SetMembers), each member's
// exports once all its objects are read (Exports), whether its API server responds (Contact, Lost),
// and the results of writes (Written). It writes the status of each import (Import) and the
// condition of each export (Condition). Hub calls Config.Imports and Config.Exports when these may
// have changed.
//
//	hub.go        Hub: its members, and what each receives from the others
//	standing.go   the state of exports
//	fit.go        exports that are not allowed in an import
//
// Each member has a registry (multicluster/registry) of exports to it, and an importer
// (multicluster/imports). So the rules of Penstocks apply: a withdrawn export drains, a silent
// member withdraws nothing, and `allow` limits each member. Endpoints of pools do not pass through
// an API server.
//
// Restart: Restore passes the hub's entries in a member's imports. They are exports of Unreachable
// clusters until these clusters are read. Settled reports whether a cluster was read or its grace
// period ended. Before that, the cluster's entries are neither written nor removed.
//
// Trust: a member's API server may return objects that no real API server accepts. An API server
// would reject an import with such an export. So the export is Unread in the registries of other
// members, and its previous version stays.
//
// Invariants: a member that does not respond delays only the entries of its own exports, for at
// most Config.Grace. The same facts, in any order and after any restart, lead to the same imports
// and conditions. Memory grows with members times exports.
//
// Tests: go test ./multicluster/hub/decide
package decide
