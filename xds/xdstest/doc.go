// Package xdstest helps to test xDS delivery. Control is a control plane in a test. Fake is a
// strict fake Envoy that behaves as observed at the real Envoy, and records violations by the
// control plane. Simulation connects a Fake directly to the state machine of its stream, so that a
// seed replays any race.
//
// Tests: go test ./xds/xdstest/...
package xdstest
