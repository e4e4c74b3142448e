// Package drain drains an Envoy without losing a request. "penstock drain" runs inside Envoy's
// container as a preStop hook, and returns when Envoy has nothing left in flight.
//
// It makes Envoy fail its health checks, through the admin interface. From then on Envoy is not
// ready, and each response ends its connection ("connection: close", GOAWAY). Envoy still takes new
// connections until all nodes of the cluster have stopped sending them.
//
// Invariants: it returns nil when nothing is in flight or the time is up, whichever is first. If
// Envoy's statistics are not available, requests count as in flight.
//
// Tests: go test ./xds/fleet/drain (on the real Envoy).
package drain
