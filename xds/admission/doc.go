// Package admission limits a listener's connections. Until a client has authenticated, it also
// limits the connections of the client's address, and the bytes and the time of each connection.
// cmd/penstock wraps the listeners of its gRPC servers, which call Admit once they have verified a
// credential.
//
// Invariants: a listener has at most Config.Most connections, and at most Config.PerAddress
// connections of one address that wait for admission.
//
// Tests: go test ./xds/admission
package admission
