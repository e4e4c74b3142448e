// Package access finds the AccessPolicies above a route. They decide which API keys may call the
// route.
//
// Only translator calls it. Above returns the policies of a route, which package envoy turns into
// gates. Admitted returns which members of the cluster set may send requests to peer listeners.
// Ungated returns the policy that forbids streams at a listener, because no gate can read
// them. Report reports on a policy. Effects and Affected (affected.go) report on its targets.
//
// A policy applies to its targets (GEP-713, direct attachment): a Gateway with its ListenerSets,
// one listener, a route, one rule of a route, or an InferencePool. With a pool as the target, it
// applies to all routes that may reach the pool, also by spilling, mirroring or an import. All
// policies above a route apply together: each must let a request in. Of several policies with the
// same target, only the oldest counts. Of equally old policies, the first by name counts.
//
// Invariants:
//   - Pure, like all of translator. It reads AccessPolicies, never APIKeys: a changed key changes
//     no row.
//   - A mistake in a policy closes its targets: a policy without a usable selector lets nothing
//     pass. While a target of a policy does not exist, the policy also gates its former targets
//     (AccessPolicySpec.Former), because the new name may be mistyped, and what takes the place of
//     a renamed target (discovery/store, successors.go). Over restarts a folder's journal, or on
//     Kubernetes the policy's status (AccessPolicyStatus.Targets), keeps them. Tenants may not
//     write a status. If one could, it would gate objects of its own namespace alone.
//
// Tests: go test ./translator -run AccessPolicy
package access
