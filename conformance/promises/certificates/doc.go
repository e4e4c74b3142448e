// Package certificates compares Penstock's check of users' certificates, keys and CA bundles with
// the real Envoy: Penstock accepts all input that Envoy would accept unchanged, and Envoy accepts
// all that Penstock sends. Penstock encodes PEM again, so it may accept PEM that Envoy would
// reject.
//
// A seeded corpus has each deviation alone and in pairs. Signatures are random bytes, because
// neither side verifies them. Tests: go test ./promises/certificates (with the real Envoy).
package certificates
