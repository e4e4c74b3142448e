// Package certificates decides which X.509 certificates Envoy can read, and which of them can
// verify a member of a cluster set. translator and cmd/penstock use it; it imports only the
// standard library.
//
// crypto/x509 ignores data behind the fields that it reads; Envoy's BoringSSL rejects such a
// certificate, and with it the whole secret. crypto/x509 also rejects certificates that Envoy
// accepts, because Envoy parses extensions only on use. Read, ReadPair and Readable follow the real
// Envoy (TestReadable_JudgesAsEnvoyDoes, conformance/promises/certificates), except for RSA keys
// with a public exponent of 2^31 or more, which they reject.
//
// Certificates of members must also meet a profile (Vouches, Select), because all members share one
// secret.
//
// Tests: go test ./translator/certificates (with the real Envoy)
package certificates
