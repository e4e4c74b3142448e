// Package load chooses the cluster of an import for each request, and publishes this cluster's load
// to the clusters that choose among its exports. multicluster/selection ranks the clusters, package
// picker picks, and multicluster/federation carries the reports.
//
// A request counts as load of the cluster that ranked first, until the access log reports the
// request's end. If a cluster does not report its load, its load is estimated: the requests that
// this process sent to it, divided by the number of servers on the metrics page of its picker. A
// member receives reports on the pools that it requested and that are exported to it: every 200 ms
// while the load changes, otherwise every 5 s.
package load
