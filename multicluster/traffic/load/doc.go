// Package load chooses the cluster of an import for each request, and reports to other
// clusters the load that they need for their choice. multicluster/selection decides, package picker
// picks, and multicluster/federation connects the clusters.
//
//	choose.go   Loads, a picker.Chooser: the clusters of each import
//	metrics.go  the state of the clusters, for Prometheus
//	pages.go    Page: metrics pages of clusters' pickers, with their numbers of servers
//	report.go   reports on exported pools, and reports of other clusters
//
// Importer: the picker ranks the clusters of an import by cost. The request is charged to the first
// cluster until the access log shows the request's end. Receive takes clusters' reports. A cluster
// without reports is judged by this process's requests, divided by its number of servers, which is
// on the metrics page of its picker. If this cluster itself is among the clusters, its load is read
// directly.
//
// Exporter: Sent takes the picks of this process and its replicas. Every 200 ms each member
// receives the changed loads of the pools that it requested. A load that does not change is
// reported every 5 s.
//
// Invariants: a member receives no report of a pool that is not exported to it. Memory is bounded:
// for each import by the limits of package selection, for each requested pool by limits on senders
// and prompts.
//
// Tests: go test ./multicluster/traffic/load; with two clusters and the real Envoy:
// conformance/features/leastload_test.go
package load
