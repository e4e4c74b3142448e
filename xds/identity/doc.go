// Package identity authenticates proxies, and finds the Gateway that each may serve.
//
// A proxy authenticates with a token of its service account (audience penstock.dev), which the API server reviews, or
// with a certificate that a configured authority signed. node.cluster is a wish: it only chooses among several Gateways
// that the proxy may serve. cmd/penstock gives Authorize to the ADS server and WithKey to the picker's.
//
// Related packages: xds/authority issues the control plane's certificates; xds/fleet implements Members.
//
// Invariants: a token is reviewed at least every five minutes, and denied after its expiry. Answers of the API server
// are cached for a bounded number of tokens, denials for seconds only. A token is neither logged nor kept in memory;
// the cache has its hash.
//
// Tests: go test ./xds/identity
package identity
