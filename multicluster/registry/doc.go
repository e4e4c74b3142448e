// Package registry holds what is known about a cluster set: its members, the pools that they
// export, where this cluster's own exports have arrived, and until when each member's lease runs.
//
// multicluster/federation writes for members that are peers, and multicluster/hub for members whose
// API servers a hub reads. Apply takes a batch of their updates in one transaction, and returns
// which pools are to be assembled again. multicluster/imports assembles them; multicluster/export
// writes the conditions of this cluster's exports from the placements; penstock clusters prints all
// of it. Readers read one snapshot. One that waits passes a WatchSet, reads again when it fires,
// and compares.
//
//	registry.go   Registry, and how an update changes it       schema.go   the tables and their indexes
//	member.go     members, states and leases                   export.go   exports, draining, collection
//	placement.go  where exports have arrived                record.go   what is kept over a restart
//	count.go      how much a member exports, and what is too much
//
// Lifecycle: a member's lease lasts Config.Lease from its last update, by this process's monotonic
// clock. When it expires, the member is Stale, or Unreachable if it is not connected; its exports
// stay as they are, because silence is not withdrawal and the data plane's health decides. Only an
// update of the member itself withdraws an export, or the removal of the member from the set. A
// withdrawn export drains: it takes no new request, and is collected after Config.Drain.
//
// Fencing: every update has the UID of its cluster and a Stamp, and an older one changes nothing.
// So neither a leader that was paused, nor an old hub, nor a cluster that was restored from a
// backup revives or withdraws an export. Another UID takes a member's name over only after the
// lease of the one before has expired. A member that lost its epoch starts again (startsAgain). A
// snapshot of an update that counts has all exports, also those with older stamps that are not
// known here.
//
// Restart: TakeUnsaved returns what has changed of the Records, which cmd keeps, and Restore takes
// them over, stamps and UIDs included. So neither the exports of a member that is away are lost,
// nor does an update that is older than the records have an effect.
//
// Age: an export has the time at which this cluster began to import it (Imported, Export.Since), by
// this cluster's own clock, while it is imported. One that is not allowed, not valid or one too
// many has none, however early its member announced it. The age is kept with the records, and the
// process that leads decides it for all (Agree): names of imports mean the older export.
//
// Placements are what members report, and go with the report: when the member retracts it, or is
// none any more. One counts for the incarnation of the export which it is about, so that a pool
// that is exported again is not imported before its members have reported so.
//
// Invariants: rows are immutable. An export that is not withdrawn belongs to a member. Only a
// snapshot, or an explicit withdrawal, removes: nothing is removed before all exports of a member
// are known. Endpoints are a value of an export, never an index: a key of go-memdb costs 450 bytes.
//
// Tests: go test ./multicluster/registry
package registry
