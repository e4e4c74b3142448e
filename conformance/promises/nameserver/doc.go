// Package nameserver is a DNS server for tests: it answers every query for an A record with one
// address, drops it, or answers SERVFAIL. Other records do not exist. A test changes the behavior
// while the server runs.
//
// The attacks on host names, the soak and bench use it; they pass its Address to penstock's
// --dns-server. It has no tests of its own.
//
// Invariants: each change of behavior holds for all later queries, and Queries counts from it. The
// server ends with Close.
package nameserver
