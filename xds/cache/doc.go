// Package cache holds the desired resources of every gateway's proxies. Each (gateway, profile) has
// its current resources and a log of their latest changes. The translator calls Commit. Each stream
// of xds/server reads the log with a Cursor. A profile without commits uses the gateway's default
// profile, "".
//
// Invariants: the work for a change is proportional to the change, except after a Delta.Reset and
// when a proxy connects. No cursor is ready before SetReady and the first commit to its gateway,
// because a replica must not remove resources of unread sources. A Slot stays the same pointer
// while its name is in use.
//
// Tests: go test ./xds/cache
package cache
