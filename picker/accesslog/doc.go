// Package accesslog receives which picked requests are in flight, and how they ended: it is Envoy's
// gRPC access log service.
//
// Envoy logs a request periodically, which renews the pick's lease, and at its end, which releases
// it. An entry carries the lease in dynamic metadata (namespace "penstock"), the endpoint that
// serves (namespace "envoy.lb"), the response's status and its times. The service is not on a
// request's path; a lost entry costs no more than a lease that expires, or one that is resumed by
// the next entry.
//
// Each request that has ended is an Attempt, too, of which those to exporting clusters of imports
// count. The ones without a lease have a log of their own, MembersLog: its entries never displace
// those of leases.
//
// Package picker implements Sink. Tests: go test ./picker/accesslog.
package accesslog
