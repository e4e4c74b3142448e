// Package attempts counts and stores the outcomes of requests to exporting clusters of imports. An
// Envoy reports each request to an exporting cluster when the request ends there
// (accesslog.Attempt). A request that one cluster declines and another serves counts twice. A
// Counter sums the requests by import and cluster. It also stores the last requests for which
// the picker issued no lease, for `penstock explain --why`.
//
// A Counter counts for at most maxMembers clusters, and stores at most maxKept requests. It drops
// an Envoy's report on a cluster that Penstock has not configured in the Envoy (Config.Allowed).
package attempts
