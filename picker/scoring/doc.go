// Package scoring calls external scorers, which return scores for a pick's candidates (plugin
// external-scorer). scoring.proto defines the service. Package picker makes a Client for each
// scorer of a pool.
//
// Invariants: a pick waits at most 5 ms for a scorer. A scorer that fails, is late or returns a
// wrong number of scores has no effect on the pick. After repeated failures, an address is not
// called for a second. The size of messages is bounded. Requests contain no prompts.
package scoring
