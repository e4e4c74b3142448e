// Package schedule chooses among a pool's endpoints.
//
// A Strategy is a composition: filters remove endpoints, a scorer gives each remaining endpoint a
// cost, and a choice orders them. Strategies are rows of the table in strategies.go. Filters and
// scorers have files of their own (load.go has the cost in seconds). Some strategies compare no
// costs: tree.go, and chwbl.go and session.go, which use the hash ring of ring.go. A new strategy
// is a new file and a row. Configuration composes the strategy "plugins", whose tables are in
// plugins.go: narrow.go has filters that compare endpoints, scorers_memory.go has scorers with
// memory. objective.go predicts latency, ranks endpoints that miss a request's objective last, and
// sheds requests. Package picker makes a Strategy for each pool and ranks the endpoints of every
// request with it. Describe returns each part's verdict, without changing state.
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
