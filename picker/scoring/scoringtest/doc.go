// Package scoringtest has a scorer for tests of picker and cmd. It uses no code of package scoring,
// so that tests check the bytes on the wire.
package scoringtest
