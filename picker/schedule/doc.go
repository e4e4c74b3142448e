// Package schedule chooses among a pool's endpoints.
//
// A Strategy is a composition: filters take endpoints away, scorers give each one left a cost, a choice orders them.
// Strategies are rows of the table in strategies.go, filters and scorers rows of those beside it; a new one is a new file
// and a row. Package picker makes one Strategy for each pool and asks it for every request; Explain tells each part's
// verdict without changing anything.
//
// Invariants:
//   - Rank does not lock and does not allocate beyond its scratch space.
//   - Draining endpoints are never chosen.
//   - Equal endpoints are chosen with equal probability (round-robin: in turn).
//
// Tests: go test ./picker/schedule.
package schedule
