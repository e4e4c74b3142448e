// Package cache holds the desired resources of every gateway's proxies: for each (gateway, profile)
// the current resources and a log of their latest changes. The translator commits. Each stream of
// xds/server holds a Cursor; the tail of the log is its unread part.
//
// A profile identifies the capabilities of a bootstrap, so that an upgrade may serve old and new
// proxies of one gateway differently. A cursor for a profile without commits reads the gateway's
// default profile, "".
//
// Invariants:
//   - The work for a change is proportional to the change. Only two cases visit all resources: a
//     cursor that fell behind the log (Delta.Reset), and a proxy that connects.
//   - The log holds only records that some open cursor has not read, within a bound of records and
//     bytes.
//   - Each version is encoded once and shared by all streams; the body is the translator's own.
//   - No cursor is ready before SetReady and the first commit to its gateway: a replica must not
//     remove resources of sources that it has not read yet.
//   - A Slot is one name, and stays the same pointer while the name is in use: streams keep bits,
//     not maps of strings.
//
// Tests: go test ./xds/cache
package cache
