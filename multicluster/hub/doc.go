// Package hub runs penstock hub, the multi-cluster controller of a management cluster. It follows
// the hub's ClusterSet, reads the objects of each member with a kubeconfig or a ClusterProfile, and
// writes the results of package decide there: InferencePoolImports, and the condition Exported of
// InferencePools. It ignores members with a peer, because their Penstocks exchange exports.
//
//	hub.go                          Hub: the leader's term, and the members' goroutines
//	cluster.go                      reads and writes a member
//	access.go                       access to a member's API server
//	exported.go                     the condition Exported
//	profile.go                      ClusterProfiles of the management cluster
//	page.go                         the pages and problems of members
//	rules.go                        the permissions that a member gives the hub
//	rights.go                       the kinds that the hub reads
//	decide.go                       a member's exports
//	beside.go                       a member's nodes and PoolExports
//	kubeconfig.go, credentials.go   kubeconfigs and the files that they name
//	prunes.go                       the schema of a member's imports
//	metrics.go                      the metrics for Prometheus
//	findings.go                     problems of the hub's files
//	room.go                         which objects of a member are stored
//
// set.Kubernetes writes the imports, as in a cluster's Penstock, but with the hub's controller
// name. A member's Penstock reads them like imports of any other controller.
//
// Invariants: only the leader reads and writes members. Each member has its own goroutines, queues
// and API clients, so a failing or slow member delays no other. For an unusable member there is one
// log line and one line of the page, with object, field and fix. No Secret is read.
//
// Tests: go test ./multicluster/hub; with real API servers: hub_test.go of
// conformance/promises/apiserver; with whole clusters: conformance/promises/chart
package hub
