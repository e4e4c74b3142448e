// Package certificates compares Penstock's check of users' certificates with the real Envoy:
// certificates and keys of listeners, and bundles of CA certificates. Penstock accepts whatever
// Envoy would accept as the user wrote it, and Envoy accepts whatever Penstock sends. Penstock
// encodes PEM again, so it may accept PEM that Envoy would reject.
//
// A seeded corpus has each deviation of a certificate's fields and extensions, of PEM, and of keys,
// alone and in pairs. testdata/keys has keys of many kinds that OpenSSL made: KIND.key (PKCS #8),
// KIND.pub, and for some kinds other forms. The certificates' signatures are random bytes, which
// nothing verifies.
//
// Tests: go test ./promises/certificates (with the real Envoy; less than a minute). SEED=n draws
// other pairs.
package certificates
