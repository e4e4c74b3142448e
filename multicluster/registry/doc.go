// Package registry stores the state of a cluster set: its members, their exports, the placements of
// this cluster's exports, and the members' leases.
//
// multicluster/federation writes updates of peers, and multicluster/hub updates of members whose
// API servers a hub reads. Apply returns the pools to assemble again. multicluster/imports
// assembles them; multicluster/export derives the conditions of this cluster's exports from the
// placements; penstock clusters prints all of it. Readers read one snapshot. A reader that waits
// passes a WatchSet, and reads again when it fires.
//
//	registry.go    Registry, and how an update changes it
//	schema.go      the tables and their indexes
//	member.go      members, states and leases
//	export.go      exports, and how they drain
//	placement.go   placements of this cluster's exports
//	age.go         the time since which this cluster imports an export
//	record.go      records, which survive a restart
//	count.go       members' numbers of exports, and their limits
//
// Lifecycle: a member's lease lasts Config.Lease from its last update, by this process's monotonic
// clock. Afterwards the member is Stale, or Unreachable if it is not connected. Its exports stay,
// because silence is not a withdrawal; Envoy checks their health. Only the member's own update, or
// its removal from the set, withdraws an export. A withdrawn export drains: it takes no new
// requests, and is deleted after Config.Drain.
//
// Fencing: every update has the UID of its cluster and a Stamp. An update with an older stamp
// changes nothing. So a paused leader, an old hub, or a cluster restored from a backup neither
// revives nor withdraws an export. A cluster with another UID takes over a member's name only after
// the previous cluster's lease has expired. A member that lost its epoch starts again
// (startsAgain). An accepted snapshot also adds exports with older stamps.
//
// Restart: TakeUnsaved returns the changed Records, which cmd stores. Restore applies them with
// stamps and UIDs. So exports of unreachable members are not lost, and updates older than the
// records have no effect.
//
// Age: the registry stores when this cluster began to import an export (Imported, Export.Since), by
// this cluster's clock. If exports give a name different meanings, the older export wins. An export
// that is not allowed, is invalid or exceeds a limit has no age, however early its member announced
// it. Records store ages, and the leader's ages are used by all processes (Agree).
//
// Placements are members' reports on this cluster's exports. A placement is removed when its member
// retracts it or leaves the set. It is for one incarnation of an export: members must report on a
// pool that is exported again.
//
// Invariants: rows are immutable, except that all versions of an export share its age. An export
// that is not withdrawn belongs to a member. Only a complete snapshot or an explicit withdrawal
// removes a member's exports. Endpoints have no index, because a key of go-memdb takes 450 bytes.
//
// Tests: go test ./multicluster/registry
package registry
