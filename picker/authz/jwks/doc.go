// Package jwks has the public keys of issuers of JSON Web Tokens: it parses JSON Web Key Sets (RFC
// 7517), and fetches them.
//
//	source.go   Source: where a set comes from
//	set.go      Set: the keys of a set
//	fetcher.go  Fetcher: the current set of each source, and when it is fetched
//	fetch.go    one fetch, over HTTP
//	dial.go     which addresses a fetch may reach
//
// Users write the sources (AccessPolicies), but they may not be allowed to reach everything that
// Penstock can reach. So a fetch goes to a host that the operator names (--fetch-hosts), resolves
// it once, and connects to that address. Link-local addresses, metadata servers of clouds and the
// API server are never dialled, except the API server if it is the issuer. A redirect to another
// host fails. Time and size are bounded, and neither findings nor logs quote an answer.
//
// Invariants:
//   - A set with at least one key replaces the last set as a whole. After a failure the last set
//     stays.
//   - A source is fetched every refreshInterval, and at most once in minInterval, whatever tokens
//     clients send.
//   - Only Refresh waits for a fetch, until its context ends.
//
// Package jwt reads sets. cmd's package gates names the sources.
//
// Tests: go test ./picker/authz/jwks
package jwks
