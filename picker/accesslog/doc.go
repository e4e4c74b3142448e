// Package accesslog is Envoy's gRPC access log service: it receives entries about picked requests
// that are in flight or have ended. Package picker implements Sink.
//
// Envoy logs a request periodically, which renews the pick's lease, and at its end, which ends the
// lease. A lost entry costs at most an expired lease, which the next entry resumes. Requests
// without a lease have the log MembersLog, so that they never displace entries of leases. Requests
// that a gate decided have the log UsageLog, which any process may count (package usage).
package accesslog
