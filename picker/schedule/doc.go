// Package schedule chooses among a pool's endpoints.
//
// A Strategy is a composition: filters remove endpoints, a scorer gives each remaining one a cost,
// and a choice orders them. Strategies are rows of the table in strategies.go; filters and scorers
// have their own files (load.go: the cost in seconds). Other strategies compare no costs: tree.go,
// and chwbl.go and session.go on the hash ring of ring.go. A new strategy is a new file and a row.
// Configuration composes the strategy "plugins", whose tables are in plugins.go: narrow.go has
// filters that compare endpoints, scorers_memory.go scorers with memory. objective.go predicts
// latency, ranks endpoints that miss a request's objective last, and sheds. Package picker makes a
// Strategy per pool and ranks with it for every request. Describe returns each part's verdict
// without a change of state.
//
// Invariants:
//   - Callers pass the time, so package simulation runs this code in virtual time.
//   - Rank takes no lock and allocates only scratch space, except for the scorers of
//     scorers_memory.go.
//   - Draining endpoints are never chosen.
//   - Equal endpoints are chosen with equal probability (round-robin: in turn).
//
// Tests: go test ./picker/schedule.
package schedule
