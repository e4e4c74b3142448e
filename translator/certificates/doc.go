// Package certificates decides which X.509 certificates Envoy can read, and which of these can
// verify a member of a cluster set.
//
// Envoy's BoringSSL and crypto/x509 each reject some certificates that the other accepts. Read,
// ReadPair and Readable behave like the real Envoy (TestReadable_JudgesAsEnvoyDoes), but reject RSA
// keys with a public exponent of 2^31 or more. Certificates of members must also meet stricter
// limits (Vouches, Select), because one SDS secret has the certificates of all members.
//
// Tests: go test ./translator/certificates (with the real Envoy)
package certificates
