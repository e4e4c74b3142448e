// Package resource defines an encoded Envoy resource with its version (a content hash), the
// resources that it names, and its owner objects. The translator creates resources; xds/cache,
// publish and server pass the same immutable value on, down to the bytes on the wire.
//
// Versions of a large resource share equal parts. Without parts, a change among 5,000 hosts on one
// port took 9 to 14 ms of CPU, half of it for the garbage of a new route configuration of 1.9 MB.
// With parts of about 300 hosts it takes 4 to 5 ms.
//
// Tests: go test ./xds/resource
package resource
