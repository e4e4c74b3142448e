// Package cache holds what the proxies of every gateway should have: for each (gateway, profile)
// the current resources and a log of their latest changes. The translator's side commits. A stream
// of xds/server holds a Cursor; what it has not read yet is the tail of the log.
//
// A profile names the abilities of a bootstrap, so that an upgrade may serve old and new proxies of
// one gateway differently. A cursor for a profile without commits reads the gateway's default
// profile, "".
//
// Invariants:
//   - The work for a change is in proportion to the change. Only two cases look at all resources: a
//     cursor that fell behind the log (Delta.Reset), and a proxy that connects.
//   - The log holds only what some open cursor has not read yet, within a bound of records and
//     bytes.
//   - The bytes of a version are encoded once and shared by all streams; the body is the
//     translator's own.
//   - No cursor is ready before SetReady and the first commit to its gateway: a replica that has
//     not read all of its sources must not remove what it has not read yet.
//   - A Slot is one name, and stays the same pointer while the name is in use: streams keep bits,
//     not maps of strings.
//
// Tests: go test ./xds/cache
package cache
