// Package hostname resolves the host names that translation uses as addresses, and stores their IP
// addresses as Hosts. Translation reads the Hosts, because Envoys receive only IP addresses.
//
// Invariants: Want never waits for a lookup. When a lookup fails, the Host keeps its last addresses
// and gets the error. The last addresses survive a restart, and are kept for an hour after a name's
// last use. Failing names are looked up last, so that a DNS server that drops queries delays only
// its own names. If a name has IPv4 addresses, only these are used: most machines reach IPv4
// addresses, and "localhost" is one server, not two. Processes that serve the same Envoys exchange
// changed addresses (Resolver.OnChange and Learn).
package hostname
