// Package attempts counts and keeps what became of requests to exporting clusters of imports,
// whatever policy chose the cluster.
//
// Envoys report each request to an exporting cluster when it has ended there (accesslog.Attempt):
// one that a cluster declines, and another serves, is two. A Counter sums them up by import and
// cluster, for metrics and `penstock clusters list`, and keeps the last ones without a lease, for
// `penstock explain --why`; the picker's records have the others. Each process counts what its own
// Envoys report to it.
//
// Invariants: it counts for maxMembers clusters of imports and keeps maxKept requests at most. A
// report counts for what a Gateway's proxies have clusters of (Config.Allowed); others are dropped.
// A cluster that has left its import is counted no more once no request has been sent there for
// forgetAfter.
//
// Package app connects it to the picker. Tests: go test ./cmd/penstock/internal/attempts
package attempts
