// Package cache holds what every gateway's proxies ought to have: for each (gateway, profile) the current resources,
// and the log of what changed lately. The translator's side commits; a stream of xds/server holds a Cursor, and what
// it lacks is the log's tail.
//
// A profile is what a bootstrap says that it can take, so that an upgrade may serve old and new proxies of one gateway
// differently. A cursor for a profile that nobody commits to reads the gateway's default profile, "".
//
// Invariants:
//   - The work for a change is in proportion to the change: nothing here looks at all resources, except for a cursor
//     that fell behind the log (Delta.Reset) and for a proxy that connects.
//   - The log holds only what some open cursor has not read yet, within a bound of records and bytes.
//   - The bytes that every stream sends for one version are made once and shared; the body is the translator's own.
//   - Nobody reads a gateway before SetReady and before the first commit to it: a replica that has not seen all of its
//     sources must not remove what it has not heard of yet.
//   - A Slot is one name, the same pointer as long as anyone knows that name: streams keep bits, not maps of strings.
//
// Tests: go test ./xds/cache
package cache
