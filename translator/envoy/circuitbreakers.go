package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// unbounded disables circuit breakers: Envoy's default limit is 1,024 connections and requests.
const unbounded = 1 << 30

// servicePercent and poolPercent limit a cluster's retries in flight, in % of its requests in
// flight. serviceLeast and poolLeast retries are always allowed. Beyond these limits, the client
// gets the failure.
const (
	// With Envoy's default of three retries, most failovers of a Service would end in a 503.
	servicePercent, serviceLeast = 25, 64
	poolPercent, poolLeast       = 100, 1024
)

// When our picker or an exporting cluster fails, all its waiting requests fail at once, so their
// retries have no limit.
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
