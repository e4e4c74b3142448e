// Package dial connects to external pickers, in cleartext or over TLS, which may verify the picker
// and present a client certificate.
//
// extproc calls pickers over such connections, and probe determines how they answer.
//
// Invariants: an address that is not Cleartext is only used with TLS; with Verify nothing is sent
// to a server with a mismatched certificate.
//
// Tests: go test ./picker/dial
package dial
