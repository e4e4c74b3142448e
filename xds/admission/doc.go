// Package admission limits a listener's connections: their number, and until a client has
// authenticated, the connections of its address, and the bytes and time of each connection.
// cmd/penstock wraps the listeners of its gRPC servers, which call Admit once they have verified
// the credential of a call.
//
// Invariants: a listener never has more than Config.Most connections, nor more than
// Config.PerAddress of an address that are not admitted.
//
// Tests: go test ./xds/admission
package admission
