// Package nameserver is a DNS server for tests. It answers every query for an A record with one
// address, drops the query, or answers SERVFAIL. A test can change this while the server runs, and
// passes the server's Address to penstock's --dns-server. The package has no tests.
package nameserver
