// Package accesslog is Envoy's gRPC access log service: it receives which picked requests are in
// flight, and how they ended.
//
// Envoy logs a request periodically, which renews the pick's lease, and at its end, which ends the
// lease. An entry has the lease in dynamic metadata (namespace "penstock"), the serving endpoint
// (namespace "envoy.lb"), and the response's status and times. The service is not on a request's
// path. A lost entry costs at most an expired lease, which the next entry resumes.
//
// A request that has ended at an exporting cluster of an import, or at another target of a hop, is
// also an Attempt. Requests without a lease arrive in a log of their own, MembersLog, so that they
// never displace entries of leases.
//
// Requests that a gate decided have a log of their own, too (UsageLog): its entries are complete in
// themselves, so that any process may count them (package usage).
//
// Package picker implements Sink. Tests: go test ./picker/accesslog.
package accesslog
