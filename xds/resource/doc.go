// Package resource is one encoded Envoy resource with the data for its delivery: its content hash
// as version, the resources that it names, and its owner objects.
//
// The translator creates resources; xds/cache, publish and server pass the same immutable value on,
// down to the bytes on the wire. The bytes are in parts, most often one. Versions of a large
// resource share equal parts.
//
// With 5,000 hosts on one port, garbage cost more than encoding: a new route configuration of 1.9
// MB per change was half of its 9 to 14 ms of CPU, and visiting 5,000 hosts most of the rest.
// Versions therefore share parts: a table of blocks of about 300 hosts stands between hosts and
// route configuration, and only gRPC concatenates bytes. 4 to 5 ms remain, a third of it sending in
// the kernel.
//
// Tests: go test ./xds/resource
package resource
