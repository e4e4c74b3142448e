// Package scoringtest is a scorer for tests of picker and cmd: a gRPC server of
// picker/scoring/scoring.proto.
//
// Invariant: it passes encoded messages and uses none of package scoring's code, so that a test
// shows the wire.
//
// Tests: see picker/scoring.
package scoringtest
