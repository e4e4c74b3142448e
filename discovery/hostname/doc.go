// Package hostname resolves the host names that translation uses as addresses, and stores the
// answers as Hosts. Envoy gets only IP addresses, so no package above discovery resolves names.
//
//	resolver.go   Resolver: which names are used, and what their lookups answer
//	schedule.go   when each name is looked up
//	save.go       answers -> Hosts
//	former.go     the last answers of names that are not used now
//	state.go      the last answers, over restarts
//	panics.go     a panic harms one lookup
//
// cmd makes a Resolver, and calls Want with the names that each translation begins and ceases to
// use: Run looks them up, and repeats lookups. Resolve is for offline use.
//
// Processes that serve the same Envoys look names up at different moments, as far apart as the
// interval. So that the picker of one names no address that the other has not given to Envoy, what
// one finds to have changed is for the others too: Resolver.OnChange and Learn.
//
// Invariants: nothing waits for a lookup. Only used names are looked up. When a lookup fails, the
// Host keeps the addresses of the last one that succeeded, over restarts too, and has the error. So
// does a name that was not used for up to an hour. A name that fails is looked up again after a
// back-off, behind all names that do not fail: names whose server drops every query delay no other
// name. A name with IPv4 addresses is used with those alone: most machines reach them, and
// "localhost" is one server, not two. Which answers may become endpoints is decided in
// translator/addresses, at each change of a Host.
//
// Tests: go test ./discovery/hostname
package hostname
