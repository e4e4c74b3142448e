// Package model defines the plain structs between Gateway API and Envoy. translator/gatewayapi and
// translator/inference make them from objects, and translator/envoy makes protos from them. Values
// are immutable once returned. Two values that mean the same are equal.
//
// The name of an Envoy resource derives from the object's identity, never from a position in a
// list. Only this package joins or splits such names, except the names of pools
// (discovery/objectid).
//
// Tests: go test ./translator/...
package model
