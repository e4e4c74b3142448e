// Package authz decides whether a request may pass. It implements Envoy's external authorization
// service for gates: the ext_authz filters of routes with AccessPolicies (translator/envoy,
// gate.go). The picker's gRPC server serves it.
//
// A gate's per-route configuration names the policies that apply to the route. The service reads
// these policies and the client's API key from one CheckRequest. It needs only headers, so it
// answers before Envoy reads a body. Every policy must permit the key. The answer's metadata lists
// the policies that permit it. The route's RBAC filter requires this list: otherwise an empty
// answer would let a request pass.
//
//	key.go     what a key looks like, and its hash
//	table.go   Table: keys by hash, and policies
//	decide.go  Table.Decide: a decision, from headers
//	reply.go   a decision as a CheckResponse, in the error format of the client's API
//	server.go  Server: the gRPC service
//	failures.go  calls and requests without an answer, in metrics and the log
//	attempts.go  limits of failed attempts by client address
//	open.go    open requests of routes with revoke: Immediately, which end with their key's access
//	token.go   callers with a JSON Web Token: packages jwt and jwks verify it
//
// cmd starts the service, and fills the Table from the store's APIKeys and AccessPolicies. So a
// changed key changes no Envoy configuration. Package picker reads the headers that the service
// adds to requests.
//
// Invariants:
//   - Fail closed. Only an answer that lists the policies lets a request pass. The call fails with
//     UNAVAILABLE if a policy is unknown, if the Table was never filled, or if the keys of a
//     token's issuer were never fetched. Envoy then calls another process, and answers 503 if that
//     call also fails.
//   - Unknown facts deny. A key that lists models denies a request whose model the strict scan
//     (translator/envoy, scan.lua) could not read. A key that lists pools denies a request whose
//     route has unknown pools.
//   - The Table has only hashes of keys. No answer, log or error contains a client's key.
//   - Unknown, malformed, disabled and expired keys get the same answer, after the same time.
//   - Headers with credentials never pass a gate.
package authz
