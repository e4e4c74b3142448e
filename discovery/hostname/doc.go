// Package hostname resolves the host names that translation uses as addresses, and stores the
// answers as Hosts. No package above discovery resolves names, because Envoy gets only IP
// addresses.
//
// Invariants: nothing waits for a lookup. When a lookup fails, the Host keeps its last addresses
// and gets the error. The last addresses survive a restart, and are kept for an hour after a name's
// last use. Failing names are looked up last, so that a DNS server that drops queries delays only
// its own names. If a name has IPv4 addresses, only these are used: most machines reach IPv4
// addresses, and "localhost" is one server, not two. Processes that serve the same Envoys share
// changed answers (Resolver.OnChange and Learn).
package hostname
