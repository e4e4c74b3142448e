// Package jwt verifies JSON Web Tokens (RFC 7519) for the authorization service (picker/authz).
//
//	rule.go      Rule: what a policy requires of a token, and where a token describes its caller
//	verifier.go  Verifier: tokens that count, and what has been verified already
//	claims.go    the claims of a token
//
// The keys come from package jwks. The caller of Verify is picker/authz, which then treats an
// Identity as an API key.
//
// Invariants:
//   - A token counts only if a key of its issuer has signed it with an asymmetric algorithm, its
//     iss and aud are the policy's, its exp is in the future, and its nbf is not in the future.
//     Everything else is no token.
//   - A verified token is remembered until its exp, for one set of keys and one Rule. After a
//     change of the set or the policy, it is verified again. The memory is bounded.
//   - An unknown kid causes at most one fetch in 10 s. Verify waits for it until its context ends.
//   - No token is stored: the memory has hashes. No error has a token or a claim.
//
// Tests: go test ./picker/authz/jwt
package jwt
