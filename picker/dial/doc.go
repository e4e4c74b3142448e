// Package dial connects to external pickers, in cleartext or over TLS. Packages extproc and probe
// use its connections.
//
// Invariants: an address that is not Cleartext is only used with TLS. With Verify, nothing is sent
// to a server whose certificate does not match.
package dial
