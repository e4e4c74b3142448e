// Package load chooses the cluster of an import for each request, and reports to other
// clusters the load that they need for their choice. multicluster/selection decides, package picker
// picks, and multicluster/federation connects the clusters.
//
//	choose.go   Loads: the clusters of each import, and picker.Chooser
//	metrics.go  the state of the clusters, for Prometheus
//	pages.go    Page: metrics pages of clusters' pickers, with their numbers of servers
//	report.go   reports on exported pools, and others' reports
//
// Importer: the picker ranks the clusters of an import by cost. The first one is charged with the
// request until the access log shows its end. Receive takes clusters' reports. A cluster without
// reports is judged by this process's own requests, divided among its servers. The metrics page of
// its picker shows their number, where the import names one. This cluster itself, where it is among
// the clusters, is read directly.
//
// Exporter: Sent takes the picks of this process and its replicas. Every 200 ms each member
// receives the load of the pools that it requested, if it changed; an idle pool is reported every 5
// s.
//
// Invariants: a member receives no report of a pool that is not exported to it. A member with no or
// invalid reports is judged by this process's own requests. Memory is bounded: by selection's
// limits for each import, and by limits on senders and prompts for each requested pool.
//
// Tests: go test ./multicluster/traffic/load; with two clusters and the real Envoy:
// conformance/features/leastload_test.go
package load
