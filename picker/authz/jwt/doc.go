// Package jwt verifies JSON Web Tokens (RFC 7519) for the authorization service (picker/authz).
//
//	rule.go      Rule: what a policy requires of a token, and where a token describes its caller
//	verifier.go  Verifier: verifies tokens, with a cache
//	claims.go    the claims of a token
//
// The keys come from package jwks. picker/authz calls Verify, and treats an Identity as an API key.
//
// Invariants:
//   - A token is valid only if a key of its issuer has signed it with an asymmetric algorithm, the
//     policy names its iss and aud, its exp is in the future, and its nbf is not in the future.
//   - The Verifier caches a verified token until its exp, for one key set and one Rule. After a
//     change of the set or the policy, it verifies the token again. The cache has a maximum size.
//   - Tokens with an unknown kid cause at most one fetch in 10 s for each issuer. Verify waits for
//     the fetch at most until its context ends.
//   - The cache has only hashes of tokens. No error contains a token or a claim.
//
// Tests: go test ./picker/authz/jwt
package jwt
