// Package scoringtest is a scorer for tests of picker and cmd: a gRPC server of
// picker/scoring/scoring.proto.
//
// Invariant: it passes encoded messages on and uses no code of package scoring, so that tests
// compare the bytes on the wire.
//
// Tests: see picker/scoring.
package scoringtest
