// Package access finds the AccessPolicies above a route, which decide which API keys may call it.
// Only translator calls it.
//
// A policy applies to its targets (GEP-713, direct attachment): a Gateway with its ListenerSets, a
// listener, a route, a rule of a route, or an InferencePool. A pool stands for all routes that may
// reach it, also by spilling, mirroring or an import. Every policy above a route must let a request
// in. Of several policies with the same target, only the oldest counts.
//
// Invariants: the package reads AccessPolicies, never APIKeys, so a changed key changes no row. A
// policy without a usable selector lets no request pass.
//
// Tests: go test ./translator -run AccessPolicy
package access
