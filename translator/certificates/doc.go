// Package certificates decides which X.509 certificates Envoy can read, and which of them can
// verify a member of a cluster set.
//
// crypto/x509 ignores data behind the fields that it reads. Envoy's BoringSSL rejects such a
// certificate, and with it the whole secret. crypto/x509 also rejects certificates that Envoy
// accepts, because Envoy reads extensions only on use. Read, ReadPair and Readable follow the
// observed behaviour of the real Envoy (TestReadable_JudgesAsEnvoyDoes, and
// conformance/promises/certificates).
//
// The package does not read RSA keys with a public exponent of 2^31 or more, although Envoy accepts
// them. Certificates of members must also meet a profile (Vouches, Select), because all members
// share one secret.
//
// The package depends only on the standard library. translator and cmd/penstock use it.
//
// Tests: go test ./translator/certificates (with the real Envoy)
package certificates
