// Package accesslog implements Envoy's gRPC access log service: it receives entries about picked
// requests that are in flight or have ended. Package picker implements Sink.
//
// Envoy logs a request periodically, and at its end. A periodic entry renews the pick's lease, and
// the last entry ends the lease. If entries are lost, the lease may expire; the next entry resumes
// it. Requests without a lease have a separate log, MembersLog, so that they never displace entries
// of leases. Requests that an AccessPolicy allowed or denied are in UsageLog, and any process may
// count these (package usage).
package accesslog
