// Package access finds the AccessPolicies above a route. They decide which keys may call it.
//
// Package translator calls it. Above returns the policies of one route of a virtual host, which
// package envoy turns into gates. Ungated returns the policy that forbids streams at a listener,
// because no gate can read them. Report reports on a policy.
//
// A policy applies to its targets (GEP-713, direct attachment): a Gateway with its ListenerSets,
// one listener of a Gateway, a route, one rule of a route, or an InferencePool. A policy of a pool
// applies to every route that may reach the pool, also by spilling, mirroring or an import. All
// policies above a route apply together: each must let a request in. If several policies have the
// same target, only the oldest counts, or among equally old ones the first by name.
//
// Invariants:
//   - Pure, like all of translator. It reads AccessPolicies, never APIKeys: a changed key changes
//     no row.
//   - A mistake in a policy closes its targets: a policy without a usable selector lets nothing
//     pass.
//
// Tests: go test ./translator -run AccessPolicy
package access
