// Package load chooses the cluster of an import for each request, and reports to other clusters the
// load that they need for their choice. multicluster/selection decides, package picker picks, and
// multicluster/federation connects the clusters.
//
// The request is charged to the first cluster until the access log shows the request's end. A
// cluster without reports is judged by this process's requests, divided by its number of servers,
// which is on the metrics page of its picker. Every 200 ms each member receives the changed loads
// of the pools that it requested, and every 5 s a load that does not change. A member receives no
// report of a pool that is not exported to it.
package load
