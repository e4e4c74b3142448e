// Package certificates decides which X.509 certificates Envoy can read, and which of them can
// verify a member of a cluster set.
//
// Envoy's BoringSSL and crypto/x509 each reject some certificates that the other accepts. Read,
// ReadPair and Readable follow the real Envoy (TestReadable_JudgesAsEnvoyDoes), but reject RSA keys
// with a public exponent of 2^31 or more. Certificates of members must also meet a profile
// (Vouches, Select), because all members share one secret.
//
// Tests: go test ./translator/certificates (with the real Envoy)
package certificates
