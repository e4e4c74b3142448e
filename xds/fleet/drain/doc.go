// Package drain ends an Envoy's work without losing any of it: before a pod's containers are told to stop, "penstock drain"
// runs inside Envoy's container (a preStop hook) and returns when Envoy has nothing left to do.
//
// Envoy is told to fail its health checks, by its admin interface. From then on it is not ready, and each answer ends its
// connection ("connection: close", GOAWAY); it takes new connections until the last of the cluster's nodes has heard.
//
// Invariants: it returns nil when nothing is under way or the time is up, whichever is first; what Envoy's statistics do not
// say counts as under way.
//
// Tests: go test ./xds/fleet/drain (on the real Envoy).
package drain
