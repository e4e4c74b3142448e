// Package dial connects to external pickers, in cleartext or over TLS. With TLS it can verify the
// picker's certificate and present a client certificate.
//
// Package extproc calls pickers over such connections, and package probe determines how they
// answer.
//
// Invariants: an address that is not Cleartext is only used with TLS. With Verify, nothing is sent
// to a server whose certificate does not match.
//
// Tests: go test ./picker/dial
package dial
