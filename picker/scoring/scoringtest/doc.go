// Package scoringtest is a scorer for tests: a gRPC server of picker/scoring/scoring.proto. Tests
// of picker and cmd use it.
//
// Invariant: it passes encoded messages on and knows none of package scoring's code, so that a test
// shows what is on the wire.
//
// Tests: those of picker/scoring.
package scoringtest
