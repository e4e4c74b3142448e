// Package identity finds out who connects: which Gateway's proxy it is that asks for configuration.
//
// A proxy proves who it is with a token of its service account (audience penstock.dev), which the API server reviews, or with
// a certificate that an authority signed that we were told of. What it says in node.cluster is a wish: it counts only among
// several Gateways that it may serve. cmd/penstock gives Authorize to the ADS server and Interceptors to the picker's.
//
// Invariants: a token is reviewed at least every five minutes, and never believed beyond its end; answers of the API server
// are kept for few tokens at a time, refusals for seconds only; a token is neither logged nor kept in memory, only its hash.
//
// Tests: go test ./xds/identity
package identity
