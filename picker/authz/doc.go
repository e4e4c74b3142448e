// Package authz decides whether a request may pass: it is the authorization service of Envoy's
// gates (translator/envoy, gate.go), on the picker's gRPC server.
//
// A gated route names the policies above it in its per-route configuration. The service reads these
// policies and the client's API key from one CheckRequest. It needs only headers, so it answers
// before Envoy reads a body. Every policy must let the key in. The answer's metadata lists the
// policies that let it in. The route's RBAC filter (the lock) requires this list, because otherwise
// an empty answer would let a request pass.
//
//	key.go     what a key looks like, and its hash
//	table.go   Table: keys by hash, and policies
//	decide.go  Table.Decide: a decision, from headers
//	reply.go   a decision as a CheckResponse, in the error format of the client's API
//	server.go  Server: the gRPC service
//	failures.go  calls and requests without an answer, in metrics and the log
//	attempts.go  limits of failed attempts by client address
//	open.go    open requests of routes with revoke: Immediately: a key that no longer counts ends them
//	token.go   callers with a JSON Web Token: packages jwt and jwks verify it
//
// cmd wires the service, and fills the Table from the store's APIKeys and AccessPolicies: a changed
// key affects neither translation nor Envoy. Package picker reads the headers that the service
// adds.
//
// Invariants:
//   - Fail closed. Only an answer with the decided policies lets a request pass. If a policy is
//     unknown, the Table was never filled, or the keys of a token's issuer were never fetched, the
//     call fails with UNAVAILABLE. Envoy then calls another process, and answers 503 if that call
//     fails, too.
//   - Unknown facts deny: a key with models needs a model that the strict scan read
//     (translator/envoy, scan.lua), and a key with pools needs the route's pools.
//   - The Table has hashes of keys. No answer, log or error contains a presented key.
//   - Unknown, malformed, disabled and expired keys get one answer, after the same time.
//   - Headers with credentials never pass a gate.
package authz
