// Package clusterload chooses the cluster of an import for each request, and reports to other
// clusters what they need for that. The decision is multicluster/selection's, the pick is package
// picker's, and multicluster/federation has what passes between clusters.
//
//	choose.go   Loads: the clusters of each import, and picker.Chooser
//	metrics.go  what is known of the clusters, for Prometheus
//	pages.go    Page: the metrics pages of clusters' pickers, which show how many servers take requests there
//	report.go   what this cluster reports of the pools that it exports, and what it takes from others' reports
//
// Importer: the picker names the clusters of an import in the order of their costs, and the first
// is charged with the request until the access log shows its end. What clusters report arrives by
// Receive. A cluster that does not report is judged by this process's own requests, divided among
// its servers: the metrics page of its picker shows how many there are, where the import names one.
// This cluster itself, where it is among them, is read directly.
//
// Exporter: picks of this process, and of its replicas, arrive by Sent. Every 200 ms each member is
// sent the load of the pools that it asks for, if it changed; a pool that rests is reported every 5
// s.
//
// Invariants: nothing is reported of a pool to a member that it is not exported to. A member that
// reports nonsense, or nothing, is judged by this process's own requests. What is kept is bounded:
// selection's limits for each import, and senders and prompts for each pool of which a member asks
// for the load.
//
// Tests: go test ./cmd/penstock/internal/clusterload; with two clusters and the real Envoy:
// conformance/features/leastload_test.go
package clusterload
