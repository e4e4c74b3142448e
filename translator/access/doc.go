// Package access finds the AccessPolicies above a route: who may call it.
//
// translator calls it. Above has the policies of one route of a virtual host, which package envoy
// turns into gates; Ungated has the streams that a gate forbids, because no gate can read them;
// Report reports on a policy.
//
// A policy applies to its targets (GEP-713, direct attachment): a Gateway with its ListenerSets,
// one listener of it, a route, one rule of it, or an InferencePool, and then every route that may
// reach the pool, also by spilling, mirroring or an import. All policies above a route apply
// together: each must let a request in. Of several policies for one target the oldest counts, then
// the first by name.
//
// Invariants:
//   - Pure, like all of translator. It reads AccessPolicies, never APIKeys: a changed key changes
//     no row.
//   - Whatever is wrong with a policy, its targets stay closed: a policy without a usable selector
//     lets nothing pass.
//
// Tests: go test ./translator -run AccessPolicy
package access
