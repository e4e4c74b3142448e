// Package cache holds the desired resources of every gateway's proxies: for each (gateway, profile)
// the current resources and a log of their latest changes. The translator calls Commit. Each stream
// of xds/server holds a Cursor: its place in the log. A profile without commits reads the gateway's
// default profile, "".
//
// Invariants: the work for a change is proportional to the change, except after a Delta.Reset and
// when a proxy connects. No cursor is ready before SetReady and the first commit to its gateway: a
// replica must not remove resources of sources that it has not read yet. A Slot stays the same
// pointer while its name is in use.
//
// Tests: go test ./xds/cache
package cache
