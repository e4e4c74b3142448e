// Package certificates decides which X.509 certificates Envoy reads, and which of them may vouch
// for a member of a cluster set.
//
// crypto/x509 ignores what follows the fields that it reads; Envoy's BoringSSL rejects it, and with
// it the whole secret. Readable is that difference, as the real Envoy was observed to judge
// (TestReadable_JudgesAsEnvoyDoes). Users' own certificates meet nothing stricter. Certificates of
// members meet a profile as well (Vouches, Select), because one secret has those of all members.
//
// It depends on nothing but the standard library. translator and cmd/penstock use it.
//
// Tests: go test ./translator/certificates (with the real Envoy)
package certificates
