package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// unbounded raises circuit breakers out of the way: a queue in Envoy's defaults (1,024 connections and requests) would
// be a limit that no object sets. Budgets on retries stay.
const unbounded = 1 << 30

// circuitBreakers let every request pass; retries get a budget, because the default of three at a time would make 503s of most
// fail-overs (ENVOY.md, "Requests and retries"). All calls that wait for a picker of our own fail at once when it does, and each has to
// be made again: they are small, and there are as many as requests. The same is so when an exporting cluster declines its share. each is
// for these: every request may be repeated.
func circuitBreakers(each bool) *clusterv3.CircuitBreakers {
	percent, least := 25.0, uint32(64)
	if each {
		percent, least = 100, unbounded
	}
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     u32(unbounded),
		MaxPendingRequests: u32(unbounded),
		MaxRequests:        u32(unbounded),
		RetryBudget: &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
			BudgetPercent:       &typev3.Percent{Value: percent},
			MinRetryConcurrency: u32(least),
		},
	}}}
}
