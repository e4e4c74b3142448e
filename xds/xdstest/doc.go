// Package xdstest is what tests of the delivery need: a whole control plane in the test (Control), small resources that
// the real Envoy takes, and a strict fake Envoy which does what was seen of the real one and notes every mistake of the
// control plane. The real one is run by xdstest/envoytest; the scenarios in this package's tests run against both.
// A Simulation is the fake with the stream's state machine and nothing in between, for races that a seed replays.
//
// Tests: go test ./xds/xdstest/...
package xdstest
