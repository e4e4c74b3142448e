// Package model defines the plain structs between Gateway API and Envoy. translator/gatewayapi and
// translator/inference make them from objects, translator/envoy makes protos from them, and
// translator connects these packages. Values are immutable once returned and do not depend on the
// order of arrival: two values that mean the same are equal.
//
// Names derive from identity, never from a position. ClusterID and HopID have String and a parser.
// Names of chains, listeners and secrets are in names.go, names of pools in discovery/objectid. No
// other package joins or splits a name.
//
// Tests: go test ./translator/...
package model
