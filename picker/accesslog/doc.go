// Package accesslog is Envoy's gRPC access log service: it receives entries about picked requests
// that are in flight or have ended. Package picker implements Sink.
//
// Envoy logs a request periodically, and at its end. A periodic entry renews the pick's lease, and
// the last entry ends it. A lost entry costs at most an expired lease; the next entry resumes it.
// Requests without a lease have the log MembersLog, so that they never displace entries of leases.
// Requests that a gate decided have the log UsageLog, which any process may count (package usage).
package accesslog
