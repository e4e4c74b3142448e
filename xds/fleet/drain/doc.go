// Package drain drains an Envoy without losing a request, as a preStop hook in Envoy's container.
// Envoy fails its health checks, and each response ends its connection. Envoy still accepts
// connections until no node sends any.
//
// Invariant: if Envoy's statistics are unavailable, drain assumes requests in flight.
//
// Tests: go test ./xds/fleet/drain (on the real Envoy).
package drain
