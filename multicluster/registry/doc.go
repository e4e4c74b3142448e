// Package registry stores the state of a cluster set: its members, their exports, the placements of
// this cluster's exports, and the members' leases.
//
// multicluster/federation writes for peers, and multicluster/hub for members whose API servers a
// hub reads. Apply applies a batch of updates in one transaction and returns the pools to assemble
// again. multicluster/imports assembles them; multicluster/export derives the conditions of this
// cluster's exports from the placements; penstock clusters prints all of it. Readers read one
// snapshot. A reader that waits passes a WatchSet, and reads again when it fires.
//
//	registry.go    Registry, and how an update changes it
//	schema.go      the tables and their indexes
//	member.go      members, states and leases
//	export.go      exports, draining, collection
//	placement.go   placements of this cluster's exports
//	age.go         since when this cluster imports an export
//	record.go      records, which survive a restart
//	count.go       members' numbers of exports, and their limits
//
// Lifecycle: a member's lease lasts Config.Lease from its last update, by this process's monotonic
// clock. After it the member is Stale, or Unreachable if it is not connected. Its exports stay,
// because silence is not withdrawal and the data plane's health decides. Only the member's own
// update, or its removal from the set, withdraws an export. A withdrawn export drains: it takes no
// new requests, and is collected after Config.Drain.
//
// Fencing: every update has the UID of its cluster and a Stamp, and older updates change nothing.
// So a paused leader, an old hub, or a cluster restored from a backup neither revives nor withdraws
// an export. Another UID takes over a member's name only after the previous one's lease has
// expired. A member that lost its epoch starts again (startsAgain). A snapshot of an accepted
// update has all exports, including unknown ones with older stamps.
//
// Restart: TakeUnsaved returns the changed Records, which cmd stores. Restore applies them with
// stamps and UIDs, so the exports of an unreachable member are not lost, and an update older than
// the records has no effect.
//
// Age: an imported export has the time when this cluster began to import it (Imported,
// Export.Since), by this cluster's own clock. An export that is not allowed, invalid or one too
// many has none, however early its member announced it. Records store the age, and the leader
// decides it for all processes (Agree): names of imports mean the older export.
//
// Placements are members' reports. One is removed when its member retracts it or leaves the set. A
// placement is for one incarnation of an export, so a pool that is exported again is not imported
// until its members report that.
//
// Invariants: rows are immutable, except that all versions of an export share its age. An export
// that is not withdrawn belongs to a member. Only a snapshot or an explicit withdrawal removes
// exports: none is removed before all exports of a member are known. Endpoints are a value of an
// export, never an index: a key of go-memdb takes 450 bytes.
//
// Tests: go test ./multicluster/registry
package registry
