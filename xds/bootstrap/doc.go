// Package bootstrap creates the file with which an Envoy starts: the addresses of its control
// plane, its node identity, and all settings that only a restart can change.
//
// Invariants: an Envoy waits for its control plane indefinitely, and never serves without
// configuration. It dials an unreachable control plane at least every half second, and detects a
// frozen one.
//
// Tests: go test ./xds/bootstrap (some run the real Envoy); make golden rewrites the goldens.
package bootstrap
