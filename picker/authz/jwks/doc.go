// Package jwks fetches and parses JSON Web Key Sets (RFC 7517): the public keys of the issuers of
// JSON Web Tokens.
//
//	source.go   Source: where a set comes from
//	set.go      Set: the keys of a set
//	fetcher.go  Fetcher: the current set of each source, and when it is fetched
//	fetch.go    one fetch, over HTTP
//	dial.go     which addresses a fetch may reach
//
// Users write the sources in AccessPolicies, but may lack access to hosts that Penstock can reach.
// So a fetch goes only to hosts that the operator names (--fetch-hosts). It resolves the host once,
// and connects to that address. It never connects to link-local addresses and metadata servers of
// clouds, and to the API server only if the API server is the issuer. A redirect to another host
// fails. Time and size are bounded. Neither findings nor logs quote an answer.
//
// Invariants:
//   - A set with at least one key replaces the last set as a whole. After a failure the last set
//     stays.
//   - The Fetcher fetches a source every refreshInterval, and at most once in minInterval,
//     whatever tokens clients send.
//   - Only Refresh waits for a fetch, at most until its context ends.
//
// Package jwt verifies tokens with the sets. cmd's package gates sets the sources (Follow).
//
// Tests: go test ./picker/authz/jwks
package jwks
