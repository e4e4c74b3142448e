// Package identity authenticates proxies and finds the Gateway that each proxy may serve. A proxy
// authenticates with a token of its service account, which the API server reviews, or with a
// certificate that a configured authority signed. cmd/penstock uses Authenticate for the ADS server
// and WithKey for the picker.
//
// Invariants: the review of a token is valid for five minutes at most. A stream ends when its
// credential expires. While the API server is unreachable, a credential that this process accepted
// before stays valid for 24 hours after its expiry. Unknown tokens from an address with many denied
// tokens are denied without a review, and never evict the review of a valid token. Tokens are
// neither logged nor kept in memory: the caches have hashes of them.
//
// Tests: go test ./xds/identity
package identity
