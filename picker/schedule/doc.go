// Package schedule chooses among a pool's endpoints.
//
// A Strategy is a composition: filters remove endpoints, a scorer gives each remaining one a cost,
// a choice orders them. Strategies are rows of the table in strategies.go; filters and scorers are
// in files of their own (load.go: the cost in seconds), as are strategies that compare no costs
// (tree.go; chwbl.go and session.go, on the hash ring of ring.go). A new strategy is a new file and
// a row. The strategy "plugins" is composed by configuration: plugins.go has the tables of its
// filters, scorers and choices. narrow.go has filters that compare endpoints, scorers_memory.go
// scorers that remember picks. objective.go predicts latency, puts endpoints that miss a request's
// objective last, and sheds. Package picker makes one Strategy for each pool and ranks with it for
// every request; Describe returns each part's verdict without changing any state.
//
// Invariants:
//   - No clock: callers pass the time, so package simulation runs this code in virtual time.
//   - Rank takes no lock and allocates nothing beyond its scratch space, except for the scorers of
//     scorers_memory.go.
//   - Draining endpoints are never chosen.
//   - Equal endpoints are chosen with equal probability (round-robin: in turn).
//
// Tests: go test ./picker/schedule.
package schedule
