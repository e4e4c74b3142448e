// Package dial connects to external pickers, each in the way that its own port requires: cleartext,
// or TLS, which may verify the picker and present a client certificate.
//
// extproc asks pickers over such connections, and probe finds out how they answer.
//
// Invariants: an address that is not Cleartext is never spoken to without TLS; with Verify nothing
// is sent to a server whose certificate does not match.
//
// Tests: go test ./picker/dial
package dial
