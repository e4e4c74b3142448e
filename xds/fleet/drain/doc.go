// Package drain drains an Envoy without losing a request, as a preStop hook in Envoy's container.
// It makes Envoy fail its health checks: each response then ends its connection. Envoy still
// accepts connections until no node of the cluster sends any to it.
//
// Invariant: if Envoy's statistics are unavailable, it assumes requests in flight.
//
// Tests: go test ./xds/fleet/drain (on the real Envoy).
package drain
