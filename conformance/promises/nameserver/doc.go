// Package nameserver is a DNS server for tests: it answers every query for an A record with one
// address, drops the query, or answers SERVFAIL. A test changes the behavior while the server runs,
// and passes its Address to penstock's --dns-server. It has no tests of its own.
package nameserver
