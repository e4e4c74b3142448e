// Package access finds the AccessPolicies above a route, which decide which API keys may call it.
// Only translator calls it. Every policy above a route must let a request in. Of several policies
// with the same target, only the oldest counts (GEP-713).
//
// Invariants: the package reads AccessPolicies, never APIKeys, so a changed key changes no row. A
// policy without a usable selector lets no request pass.
//
// Tests: go test ./translator -run AccessPolicy
package access
