// Package load chooses the cluster of an import for each request, and publishes this cluster's load
// to the clusters that choose among its exports. multicluster/selection ranks the clusters, package
// picker picks, and multicluster/federation carries the reports.
//
// A request is charged to the first cluster until the access log reports the request's end. Some
// clusters do not report their load. Their load is estimated from the requests that this process
// sent, divided by the number of servers on their picker's metrics page. A member receives reports
// on the pools that it requested and that are exported to it: every 200 ms while the load changes,
// otherwise every 5 s.
package load
