// Package identity authenticates proxies and finds the Gateway that each may serve.
//
// A proxy authenticates with a token of its service account (audience penstock.dev), which the API
// server reviews, or with a certificate that a configured authority signed. node.cluster only
// chooses among several Gateways that the proxy may serve. cmd/penstock uses Authenticate for the
// ADS server and WithKey for the picker. token.go reviews tokens, junk.go limits them per address,
// certificate.go verifies client certificates, callers.go serves Gateways of other clusters that
// call the picker.
//
// Related packages: xds/authority issues the control plane's certificates; xds/fleet implements
// Members.
//
// Invariants: a token is reviewed again by new streams after at most five minutes, and denied after
// its expiry. A stream ends when its token or certificate expires. While the API server is
// unreachable, a token or certificate that this process accepted before stays valid for 24 hours
// after its expiry, for streams and new connections. Only SPIFFE IDs in the configured trust domain
// name service accounts. Implausible tokens, and tokens from an address with many denied ones, are
// denied without a review; they never evict a valid token's review. Reviews are cached for a
// bounded number of tokens, denials for seconds only. Tokens are neither logged nor kept in memory;
// the cache has their hashes.
//
// A pod's Envoy proves its service account by a projected token that Envoy itself sends
// (credential_injector on the ADS cluster). Nothing in a pod needs the API server, a sidecar or a
// shell: the drain program is copied in.
//
// Tests: go test ./xds/identity
package identity
