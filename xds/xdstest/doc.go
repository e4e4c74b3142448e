// Package xdstest tests the delivery of configuration, for tests of any package. Control is a whole
// control plane in a test. Fake is a strict fake Envoy: it behaves as observed at the real Envoy,
// and records every violation by the control plane. Simulation connects the fake directly to the
// state machine of its stream, so that a seed replays any race.
//
// Tests: go test ./xds/xdstest/...
package xdstest
