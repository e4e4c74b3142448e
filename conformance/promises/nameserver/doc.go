// Package nameserver is a DNS server for tests: it answers every query for an A record with one
// address, drops it, or answers SERVFAIL. Other records do not exist. A test changes the behavior
// while the server runs.
//
// The attacks on host names, the soak and bench use it; they pass its Address to penstock's
// --dns-server. It has no tests of its own.
//
// Invariants: a change of behavior applies to all later queries, and restarts the count of Queries.
// The server ends with Close.
package nameserver
