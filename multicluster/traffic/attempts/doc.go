// Package attempts counts and stores the outcomes of requests to exporting clusters of imports,
// under every selection policy.
//
// Envoys report each request to an exporting cluster when it ends there (accesslog.Attempt): a
// request that one cluster declines and another serves counts twice. A Counter sums them by import
// and cluster, for metrics and `penstock clusters list`. It also stores the last ones without a
// lease for `penstock explain --why`; the picker's records have the others. Each process counts the
// reports of its own Envoys.
//
// Invariants: it counts for maxMembers clusters of imports and stores maxKept requests at most. A
// report counts if the Gateway's proxies have the cluster (Config.Allowed); others are dropped. A
// cluster that left its import is dropped after forgetAfter without requests.
//
// Package app connects it to the picker. Tests: go test ./multicluster/traffic/attempts
package attempts
