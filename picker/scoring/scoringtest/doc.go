// Package scoringtest is a scorer for tests of picker and cmd. It passes encoded messages on and
// uses no code of package scoring, so that tests compare the bytes on the wire.
package scoringtest
