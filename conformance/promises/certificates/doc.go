// Package certificates compares Penstock's check of users' certificates with the real Envoy:
// certificates and keys of listeners, and bundles of CA certificates. Penstock accepts what Envoy
// accepts as its user wrote it; Envoy accepts what Penstock sends. Penstock writes PEM anew, so it
// may accept PEM that Envoy alone would not.
//
// A seeded corpus has each deviation alone, and pairs of them: of a certificate's fields and
// extensions, of PEM, and of keys. testdata/keys has keys of many kinds, by OpenSSL: KIND.key (PKCS
// #8), KIND.pub, and other forms of some. The certificates' signatures are random bytes, which
// nothing verifies.
//
// Tests: go test ./promises/certificates (with the real Envoy; less than a minute). SEED=n draws
// other pairs.
package certificates
