// Package admission limits the connections of a listener. It limits their number. Until a client
// has authenticated, it also limits the connections of the client's address, and the bytes and the
// time of each connection.
//
// cmd/penstock wraps the listeners of its gRPC servers. A server that has verified the credential
// of a call, by TLS or metadata, calls Admit with the call's context, which lifts the limits of the
// connection. xds/server does so for ADS.
//
// A Budget (budget.go) also bounds the incomplete messages of all connections, admitted ones
// included.
//
// Invariants: an address never has more than Config.PerAddress connections that are not admitted,
// and each is closed after Config.Timeout or Config.Bytes. A listener never has more than
// Config.Most connections. An admitted connection costs one atomic load per read.
//
// Tests: go test ./xds/admission
package admission
