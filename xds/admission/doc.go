// Package admission limits the connections of a listener. It limits their number. Until a client
// has authenticated, it also limits the connections of the client's address, and the bytes and the
// time of each connection.
//
// cmd/penstock wraps the listeners of its gRPC servers. A server that has verified the credential
// of a call, by TLS or metadata, calls Admit with the call's context, which lifts the limits of the
// connection. xds/server does so for ADS.
//
// A Budget (budget.go) also bounds the incomplete messages of all connections, admitted or not.
//
// Invariants: a listener never has more than Config.Most connections, and never more than
// Config.PerAddress of an address that are not admitted. It closes these after Config.Timeout or
// Config.Bytes. An admitted connection costs one atomic load for each read.
//
// Tests: go test ./xds/admission
package admission
