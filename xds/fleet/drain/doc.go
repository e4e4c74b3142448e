// Package drain drains an Envoy without losing a request. `penstock drain` runs in Envoy's
// container as a preStop hook. It makes Envoy fail its health checks: each response then ends its
// connection. Envoy still accepts connections until no node of the cluster sends any to it.
//
// Invariants: Drain returns nil when no request is in flight or the time is up. If Envoy's
// statistics are unavailable, it assumes requests in flight.
//
// Tests: go test ./xds/fleet/drain (on the real Envoy).
package drain
