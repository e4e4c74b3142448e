// Package resource defines an encoded Envoy resource with its version (a content hash), references,
// and owner objects. The translator creates resources. xds/cache, xds/publish and xds/server pass
// the same immutable values on, down to the bytes on the wire.
//
// Versions of a large resource share equal parts. A change among 5,000 hosts on one port takes 4 to
// 5 ms of CPU with parts of about 300 hosts, and 9 to 14 ms without parts.
//
// Tests: go test ./xds/resource
package resource
