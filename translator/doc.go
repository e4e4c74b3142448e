// Package translator turns objects into what Envoy gets, what our picker needs and what is said about each object. It
// exists once: Update translates a change, and a fresh Translator that gets the whole store at once gives the same, byte
// for byte.
//
// tables.go declares what is computed from what, and is the map of the whole: read it first. gatewayapi and inference
// turn objects into the model, envoy turns the model into protos, graph decides what has to be computed again.
//
// cmd makes one Translator, calls Update after each commit to the store, and hands the Output on: resources to
// xds/cache, pools to the picker, reports to discovery/status.
//
// Invariants: translation is pure (no I/O, clock, log or randomness); names come from identity; equal worlds give equal
// bytes.
//
// Tests: go test ./translator
package translator
