// Package identity authenticates proxies, and finds the Gateway that each may serve.
//
// A proxy authenticates with a token of its service account (audience penstock.dev), which the API
// server reviews, or with a certificate that a configured authority signed. node.cluster is a wish:
// it only chooses among several Gateways that the proxy may serve. cmd/penstock gives Authenticate
// to the ADS server and WithKey to the picker's. token.go has the reviews of tokens, junk.go their
// limit for each address, certificate.go the certificates of clients, callers.go the Gateways of
// other clusters, which call the picker.
//
// Related packages: xds/authority issues the control plane's certificates; xds/fleet implements
// Members.
//
// Invariants: a token is reviewed at least every five minutes by new streams, and denied after its
// expiry. A stream ends when its token or certificate expires. While the API server cannot be
// reached, a token or certificate that this process has accepted before counts for 24 hours past
// its expiry, for streams and for new connections. A SPIFFE ID names a service account in the
// configured trust domain alone. Tokens that cannot be ours, and those from an address with many
// denied ones, are denied without a review; no number of them evicts a review of a valid token.
// Answers of the API server are cached for a bounded number of tokens, denials for seconds only. A
// token is neither logged nor kept in memory; the cache has its hash.
//
// A pod's Envoy proves its service account by a projected token that Envoy itself sends
// (credential_injector on the ADS cluster). Nothing in a pod needs the API server, a sidecar or a
// shell: the drain program is copied in.
//
// Tests: go test ./xds/identity
package identity
