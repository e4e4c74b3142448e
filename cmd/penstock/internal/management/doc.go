// Package management runs penstock hub: the multi-cluster controller of a management cluster. It
// follows the hub's ClusterSet, reads the objects of each member that has a kubeconfig or a
// ClusterProfile, and writes there what multicluster/hub decides: InferencePoolImports, and the
// condition Exported of InferencePools. Members with a peer are ignored: Penstocks exchange exports
// with them.
//
//	hub.go      Hub: who leads, and which members run         cluster.go   a member: what is read and written there
//	access.go   how the API server of a member is reached     exported.go  the condition Exported
//	profile.go  ClusterProfiles of the management cluster     page.go      what is wrong with members, for people
//	rules.go    the permissions that a member gives the hub   rights.go    what the hub reads in a member
//	decide.go   what a member exports                         beside.go    its nodes, and what its own Penstock exports
//	kubeconfig.go, credentials.go  kubeconfigs, and the files that they name
//	prunes.go   whether its imports have room for clusters    metrics.go   what page.go shows, for Prometheus
//	findings.go what is wrong in the hub's files                  room.go      what the hub keeps of a member's objects
//
// Imports are written by clusterset.Kubernetes, as a cluster's own Penstock writes them, under
// names of the hub's own: so a member's Penstock reads them like those of any other controller.
//
// Invariants: only the leader reads and writes members. Each member has its own goroutines, queues
// and API clients: one that fails, or does not answer, delays no other. A member that cannot be
// used is one line of the log and one of the page, with object, field and fix. No Secret is read.
//
// Tests: go test ./cmd/penstock/internal/management; with real API servers: hub_test.go of
// conformance/promises/apiserver; with whole clusters: conformance/promises/chart
package management
