// Package dial connects to external pickers, in cleartext or over TLS. Packages extproc and probe
// use its connections.
//
// Invariants: an address that is not Cleartext is only used with TLS. With Verify, a server whose
// certificate does not match receives nothing.
package dial
