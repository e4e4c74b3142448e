// Package certificates decides which X.509 certificates Envoy reads, and which of them may vouch
// for a member of a cluster set.
//
// crypto/x509 ignores what follows the fields that it reads; Envoy's BoringSSL rejects it, and with
// it the whole secret. It also rejects what Envoy accepts, which reads no extension before it uses
// it: negative serial numbers, for instance. Read, ReadPair and Readable judge as the real Envoy
// was observed to (TestReadable_JudgesAsEnvoyDoes, and conformance/promises/certificates). Users'
// own certificates meet nothing stricter.
//
//	readable.go  the parts of a certificate, as Envoy reads them
//	read.go      a certificate, also where crypto/x509 is stricter
//	pair.go      a chain with its key
//	member.go    the profile of members'
//
// RSA keys with a public exponent of 2^31 or more, which Envoy serves with, are not read.
// Certificates of members meet a profile as well (Vouches, Select), because one secret has those of
// all members.
//
// It depends on nothing but the standard library. translator and cmd/penstock use it.
//
// Tests: go test ./translator/certificates (with the real Envoy)
package certificates
