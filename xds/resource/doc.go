// Package resource is one encoded Envoy resource with what its delivery needs: its content hash as
// version, the resources that it names, and the objects that it was made from.
//
// The translator creates resources; xds/cache, publish and server pass the same immutable value on,
// down to the bytes on the wire. The bytes are in parts, most often one. Versions of a large
// resource share equal parts. A resource and its parts never change.
//
// # What profiles taught
//
// With 5,000 hosts on one port, garbage costs more than encoding: a new route configuration of 1.9
// MB with each change was half of its 9 to 14 ms of CPU, and looking at each of 5,000 hosts most of
// the rest. So versions share parts: a table of blocks of some 300 hosts stands between hosts and
// route configuration, and only gRPC concatenates bytes. 4 to 5 ms remain, a third of it the
// kernel's sending.
//
// Tests: go test ./xds/resource
package resource
