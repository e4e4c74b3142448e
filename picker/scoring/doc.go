// Package scoring asks scorers in other processes for the scores of a pick's candidates (plugin
// external-scorer).
//
// scoring.proto is the contract. Package picker makes one Client for each scorer of a pool and asks
// it before it ranks; the scores then count as those of any other scorer.
//
// Invariants:
//   - A pick waits 5 ms at most. A scorer that fails, is late or answers with other numbers of
//     scores decides nothing: no scores.
//   - A scorer has up to four addresses, which are tried in their order. After failures in a row an
//     address is left out for a second, then gets one request as a trial.
//   - Messages are bounded: 1,024 candidates in a request, 64 KiB in an answer, 256 requests in
//     flight.
//   - Requests have no prompts.
//
// Tests: go test ./picker/scoring.
package scoring
