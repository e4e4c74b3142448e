// Package model defines the plain structs between Gateway API and Envoy. translator/gatewayapi and
// translator/inference make them from objects, and translator/envoy makes protos from them. Values
// are immutable once returned. Two values that mean the same are equal.
//
// Names derive from identity, never from a position. Only this package joins or splits names,
// except names of pools (discovery/objectid).
//
// Tests: go test ./translator/...
package model
