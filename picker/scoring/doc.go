// Package scoring asks external scorers for the scores of a pick's candidates (plugin
// external-scorer).
//
// scoring.proto is the contract. Package picker makes a Client for each scorer of a pool, and calls
// it before it ranks. The scores then count like any other scorer's scores.
//
// Invariants:
//   - A pick waits at most 5 ms. A scorer that fails, is late or returns a wrong number of scores
//     has no effect.
//   - A scorer has up to four addresses, tried in order. After repeated failures an address is
//     excluded for a second, then gets one trial request.
//   - Messages are bounded: 1,024 candidates in a request, 64 KiB in an answer, 256 requests in
//     flight.
//   - Requests contain no prompts.
//
// Tests: go test ./picker/scoring.
package scoring
