// Package authz decides whether a request may pass: it is the authorization service of Envoy's
// gates (translator/envoy, gate.go), on the picker's gRPC server. cmd fills its Table from the
// store's APIKeys and AccessPolicies.
//
// Invariants:
//   - Fail closed. Only an answer that lists the decided policies lets a request pass. If the Table
//     lacks a policy, the call fails with UNAVAILABLE, and Envoy calls another process.
//   - Unknown facts deny: a key with models needs a model that the strict scan read
//     (translator/envoy, scan.lua), and a key with pools needs the route's pools.
//   - The Table has hashes of keys. No answer, log or error contains a presented key.
//   - Unknown, malformed, disabled and expired keys get one answer, after the same time.
//   - Headers with credentials never pass a gate.
package authz
