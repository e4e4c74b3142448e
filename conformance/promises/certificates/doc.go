// Package certificates compares Penstock's check of users' certificates, keys and CA bundles with
// the real Envoy's: Penstock must accept all input that Envoy accepts, and Envoy must accept all
// that Penstock sends. Penstock may accept more, because it encodes PEM again.
//
// A seeded corpus has each deviation from a valid input alone and in pairs. Signatures are random
// bytes, because neither program verifies them. Tests: go test ./promises/certificates (with the
// real Envoy).
package certificates
