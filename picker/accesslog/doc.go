// Package accesslog is Envoy's gRPC access log service: it receives which picked requests are in
// flight, and how they ended.
//
// Envoy logs a request periodically, which renews the pick's lease, and at its end, which releases
// it. An entry has the lease in dynamic metadata (namespace "penstock"), the serving endpoint
// (namespace "envoy.lb"), the response's status and times. The service is not on a request's path.
// A lost entry costs at most an expired lease, which the next entry resumes.
//
// Each ended request is also an Attempt, for requests to exporting clusters of imports. Attempts
// without a lease have their own log, MembersLog, whose entries never displace entries of leases.
//
// Requests that a gate decided have a log of their own, too (UsageLog): its entries are complete in
// themselves, so that any process may count them (package usage).
//
// Package picker implements Sink. Tests: go test ./picker/accesslog.
package accesslog
