// Package resource is one encoded Envoy resource with what its delivery needs: its content hash as version, the
// resources that it names, and the objects that it was made from.
//
// The translator creates resources; xds/cache, publish and server pass the same immutable value on, down to the bytes
// on the wire. The bytes are in parts, most often one. Versions of a large resource share equal parts. A resource and
// its parts never change.
//
// Tests: go test ./xds/resource
package resource
