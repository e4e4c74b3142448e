// Package accesslog implements Envoy's gRPC access log service: it receives entries about picked
// requests that are in flight or have ended. Package picker implements Sink.
//
// Envoy logs a request periodically, and at its end. A periodic entry renews the pick's lease, and
// the last entry ends the lease. If entries are lost, the lease may expire; the next entry resumes
// it. Envoy logs requests without a lease to MembersLog, a log of its own, so that they never
// displace entries of leases. Envoy logs requests that a gate decided to UsageLog. Any process may
// count them (package usage).
package accesslog
