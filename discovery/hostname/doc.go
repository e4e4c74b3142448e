// Package hostname resolves the host names that objects use as addresses, and stores the answers as Hosts. Envoy gets only
// IP addresses, so no package above discovery resolves names.
//
// cmd makes a Resolver: Run follows the store and repeats lookups; ResolveOnce is for offline use.
//
// Invariants: the store has a Host for each name in use, and no other. When a lookup fails, the Host keeps the addresses of
// the last one that succeeded, over restarts too, and has the error. A name with IPv4 addresses is used with those alone:
// most machines reach them, and "localhost" is one server, not two.
//
// Tests: go test ./discovery/hostname
package hostname
