// Package schedule chooses among a pool's endpoints. A Strategy is a composition: filters remove
// endpoints, a scorer gives each remaining endpoint a cost, and a choice orders the endpoints.
// Strategies are rows of the table in strategies.go. load.go has the cost in seconds. Configuration
// composes the strategy "plugins" (plugins.go). objective.go predicts latency and sheds requests.
// Package picker makes a Strategy for each pool.
//
// Callers pass the time, so package simulation runs this code in virtual time. Rank takes no lock,
// except in scorers_memory.go. Draining endpoints are never chosen. Equal endpoints are chosen with
// equal probability.
package schedule
