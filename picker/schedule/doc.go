// Package schedule chooses among a pool's endpoints. In a Strategy, filters remove endpoints, a
// scorer gives each remaining endpoint a cost, and a choice orders the endpoints. strategies.go
// lists the strategies. load.go computes the cost of the strategy "load". A pool's configuration
// composes the strategy "plugins" (plugins.go). objective.go predicts latency and sheds requests.
// Package picker makes a Strategy for each pool.
//
// Callers pass the current time, so package simulation can run in virtual time. Rank takes no lock,
// except in scorers_memory.go. A Strategy never chooses draining endpoints. Among equally good
// endpoints, it chooses each with the same probability.
package schedule
