package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// unbounded raises circuit breakers out of the way: a queue in Envoy's defaults (1,024 connections
// and requests) would be a limit that no object sets. Budgets on retries stay.
const unbounded = 1 << 30

// Budgets of retries: how many of a cluster's requests in flight may be retries, in percent and as
// a number. The larger counts. Where the budget is exhausted, the client gets the failure.
const (
	// Of a Service: Envoy's default of three retries would make 503s of most fail-overs.
	servicePercent, serviceLeast = 25, 64
	// Of a pool: when a server dies, all its requests are sent again at the same moment, and they
	// may be most of the pool's (prompts draw requests to one server). The pick bounds how often a
	// request is repeated.
	poolPercent, poolLeast = 100, 1024
)

// circuitBreakers let every request pass; retries get a budget, and sessions of datagrams a limit.
// All calls that wait for a picker of our own fail at once when it does, and each has to be made
// again: they are small, and there are as many as requests. The same is so when an exporting
// cluster declines its share.
func circuitBreakers(c *model.Cluster) *clusterv3.CircuitBreakers {
	percent, least := float64(servicePercent), uint32(serviceLeast)
	switch {
	case c.Own, c.Fallback == model.FallbackMembers:
		percent, least = 100, unbounded
	case c.Fallback != model.PlainLB:
		percent, least = poolPercent, poolLeast
	}
	connections := uint32(unbounded)
	if c.Protocol == model.UDP { // a session counts as one
		connections = maxSessions
	}
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     u32(connections),
		MaxPendingRequests: u32(unbounded),
		MaxRequests:        u32(unbounded),
		RetryBudget: &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
			BudgetPercent:       &typev3.Percent{Value: percent},
			MinRetryConcurrency: u32(least),
		},
	}}}
}
