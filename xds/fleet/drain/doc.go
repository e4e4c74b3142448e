// Package drain drains an Envoy without losing a request. `penstock drain` runs in Envoy's
// container as a preStop hook and returns when no request is in flight.
//
// It makes Envoy fail its health checks through the admin interface. Envoy is then not ready, and
// each response ends its connection ("connection: close", GOAWAY). Envoy still accepts connections
// until all nodes of the cluster have stopped sending them.
//
// Invariants: it returns nil when nothing is in flight or the time is up. If Envoy's statistics are
// unavailable, requests count as in flight.
//
// Tests: go test ./xds/fleet/drain (on the real Envoy).
package drain
