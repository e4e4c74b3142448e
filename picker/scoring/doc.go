// Package scoring asks external scorers for the scores of a pick's candidates (plugin
// external-scorer); scoring.proto is the contract. Package picker makes a Client for each scorer of
// a pool.
//
// Invariants: a pick waits at most 5 ms. A scorer that fails, is late or returns a wrong number of
// scores has no effect. After repeated failures an address is excluded for a second. Messages are
// bounded. Requests contain no prompts.
package scoring
