// Package attempts counts and stores the outcomes of requests to exporting clusters of imports,
// under every selection policy.
//
// Envoys report each request to an exporting cluster when it ends there (accesslog.Attempt). A
// request that one cluster declines and another serves counts twice. A Counter sums the requests by
// import and cluster, for metrics and `penstock clusters list`. It also stores the last requests
// without a lease for `penstock explain --why`; the picker records those with one. Each process
// counts the reports of its own Envoys.
//
// Invariants: a Counter counts for at most maxMembers clusters of imports, and stores at most
// maxKept requests. It drops a report of a Gateway whose proxies do not have the cluster
// (Config.Allowed). A cluster that left its import is dropped after forgetAfter without requests.
//
// Tests: go test ./multicluster/traffic/attempts
package attempts
