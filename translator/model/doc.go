// Package model is what stands between Gateway API and Envoy: plain structs, in the field's own
// words.
//
// translator/gatewayapi and translator/inference make them from objects; translator/envoy makes
// protos from them; translator itself carries them from one to the other. Values are immutable once
// returned and hold nothing that depends on an order of arrival, so that two of them are equal when
// they mean the same.
//
// Names are values: ClusterID and HopID, each with String and a function that parses what String
// makes. Names of chains, listeners and secrets are in names.go, and those of pools in
// discovery/objectid. No other package joins or splits a name. Names derive from identity, never
// from a position.
//
// Tests: go test ./translator/...
package model
