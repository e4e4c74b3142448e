// Package hostname resolves the host names that objects use as addresses, and keeps the answers in the store as Hosts:
// everything that Envoy gets is an IP address, so nobody above discovery ever looks a name up.
//
// cmd builds a Resolver: Run follows the store and asks again from time to time; ResolveOnce is for offline use.
//
// Invariants: one Host for each name in use, none else. While a look-up fails, the last good addresses stay and the Host
// says why, over restarts too. A name that has IPv4 addresses is used with those alone: most machines reach them, and "localhost" means one
// server, not two.
//
// Tests: go test ./discovery/hostname
package hostname
