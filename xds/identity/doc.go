// Package identity authenticates proxies and finds the Gateway that each proxy may serve.
//
// A proxy authenticates with a token of its service account (audience penstock.dev), which the API
// server reviews, or with a certificate that a configured authority signed. node.cluster only
// chooses among several Gateways that the proxy may serve. cmd/penstock uses Authenticate for the
// ADS server and WithKey for the picker. token.go reviews tokens, junk.go limits unknown tokens by
// address, certificate.go verifies client certificates, callers.go serves Gateways of other
// clusters that call the picker.
//
// Related packages: xds/authority issues the control plane's certificates; xds/fleet implements
// Members.
//
// Invariants: the review of a token is valid for five minutes at most. A token is denied after its
// expiry. A stream ends when its token or certificate expires. While the API server is unreachable,
// a token or certificate that this process accepted before stays valid for 24 hours after its
// expiry, for streams and new connections. Only SPIFFE IDs in the configured trust domain name
// service accounts. Implausible tokens, and unknown tokens from an address with many denied tokens,
// are denied without a review. They never evict the review of a valid token. The caches of reviews
// are bounded, and denials stay for seconds only. Tokens are neither logged nor kept in memory: the
// caches have hashes of them.
//
// Envoy in a pod sends a projected token of its service account (credential_injector on the ADS
// cluster).
//
// Tests: go test ./xds/identity
package identity
