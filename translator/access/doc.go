// Package access finds the AccessPolicies that apply to a route. They decide which API keys may
// call the route.
//
// Only translator calls it. Above returns the policies of a route, for which package envoy adds
// authorization filters. Admitted returns which members of the cluster set may send requests to
// peer listeners. Ungated returns the policy that forbids streams at a listener, because no policy
// can decide about them. Report reports on a policy, and Effects and Affected report on its
// targets.
//
// A policy applies to its targets (GEP-713, direct attachment): a Gateway with its ListenerSets,
// one listener, a route, one rule of a route, or an InferencePool. A policy for a pool applies to
// all routes that may reach the pool, also by spilling, mirroring or an import. All policies that
// apply to a route must permit a request. Of several policies with the same target, only the oldest
// counts and, of equally old ones, the first by name.
//
// Invariants:
//   - All functions are pure. They read AccessPolicies, never APIKeys, so a changed key changes no
//     row.
//   - A mistake in a policy closes its targets: a policy without a usable selector permits nothing.
//   - While a target of a policy does not exist, the policy also gates its former targets
//     (AccessPolicySpec.Former), because the new name may be mistyped. It also gates the object
//     that replaces a renamed target (discovery/store, successors.go). A folder's journal, or on
//     Kubernetes the policy's status (AccessPolicyStatus.Targets), keeps them over restarts.
//     Tenants may not write a status. With a forged status, a policy would gate only objects of its
//     own namespace.
//
// Tests: go test ./translator -run AccessPolicy
package access
