// Package load chooses the cluster of an import for each request, and reports to other clusters the
// load that they need for their choice. multicluster/selection decides, package picker picks, and
// multicluster/federation connects the clusters.
//
// The request is charged to the first cluster until the access log shows the request's end. For a
// cluster without reports, the choice uses the requests that this process has sent to the cluster,
// divided by the number of the cluster's servers. The metrics page of its picker has this number.
// Every 200 ms each member receives the changed loads of the pools that it requested, and every 5 s
// a load that does not change. A member receives no report of a pool that is not exported to it.
package load
