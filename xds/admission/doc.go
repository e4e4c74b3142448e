// Package admission limits connections: how many a listener has in all, and of clients that have
// not authenticated yet how many an address may have, how much each may send, and for how long.
//
// cmd/penstock wraps the listeners of its gRPC servers. A server that has verified the credential
// of a call, by TLS or metadata, calls Admit with the call's context; from then on the connection
// has no limits here. xds/server does so for ADS.
//
// A Budget (budget.go) also bounds what all connections together send of unfinished messages,
// admitted ones included.
//
// Invariants: an address never has more than Config.PerAddress connections that are not admitted;
// each of these is closed after Config.Timeout or Config.Bytes. A listener never has more than
// Config.Most connections. An admitted connection costs one atomic load for each read.
//
// Tests: go test ./xds/admission
package admission
