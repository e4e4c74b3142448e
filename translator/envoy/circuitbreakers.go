package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// unbounded disables circuit breakers: Envoy's default of 1,024 connections and requests would be a
// limit that no object sets.
const unbounded = 1 << 30

// Retry budgets: how many of a cluster's requests in flight may be retries, in percent and as a
// number; the larger one counts. Beyond the budget, the client gets the failure.
const (
	// Of a Service: with Envoy's default of three retries, most fail-overs would be 503s.
	servicePercent, serviceLeast = 25, 64
	// Of a pool: when a server dies, all its requests are retried at once, and these may be most
	// requests of the pool.
	poolPercent, poolLeast = 100, 1024
)

// circuitBreakers does not limit retries to our picker and exporting clusters: when one fails or
// declines, all requests that wait for it fail at once and must be retried.
func circuitBreakers(c *model.Cluster) *clusterv3.CircuitBreakers {
	percent, least := float64(servicePercent), uint32(serviceLeast)
	switch {
	case c.Own, c.Fallback == model.FallbackMembers:
		percent, least = 100, unbounded
	case c.Fallback != model.PlainLB:
		percent, least = poolPercent, poolLeast
	}
	connections := uint32(unbounded)
	if c.Protocol == model.UDP { // a session counts as a connection
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
