// Package resource is one encoded Envoy resource, with what the delivery needs to know about it: its content hash as
// version, the resources that it names, and the objects that it was made from.
//
// The translator makes resources; xds/cache, publish and server pass the same immutable value on, down to the bytes on
// the wire. Its bytes are in parts, most often one; versions of a large resource share those in which they are equal. A
// resource and its parts are never changed once they are made.
//
// Tests: go test ./xds/resource
package resource
