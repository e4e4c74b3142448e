// Package registry stores the state of a cluster set: its members, their exports and leases, and
// the placements of this cluster's exports. Methods that change exports return the pools that
// multicluster/imports must assemble again. A reader that waits for a change passes a WatchSet.
//
// A member's lease lasts Config.Lease from its last update. Afterwards the member is Stale, or
// Unreachable if it is not connected. Its exports stay, because silence is not a withdrawal. Only
// the member's own update, or its removal from the set, withdraws an export. A withdrawn export
// drains: it takes no new requests, and is deleted after Config.Drain.
//
// An update with an older Stamp changes nothing. So a paused leader, an old hub, or a cluster
// restored from a backup neither revives nor withdraws an export. A cluster with another UID takes
// over a member's name only after the previous cluster's lease has expired.
//
// Two exports may give one name different meanings: an import, or NAME-CLUSTER for one cluster of
// an import. The export that this cluster has imported for longer then wins, whichever was
// announced first. Database rows are immutable, except Export.Since, which all versions of an
// export share.
package registry
