// Package hub runs penstock hub, the multi-cluster controller of a management cluster. It follows
// the hub's ClusterSet, reads the objects of each member with a kubeconfig or a ClusterProfile, and
// writes the results of package decide into the members: InferencePoolImports, and the condition
// Exported of InferencePools. It ignores members with a peer: their Penstocks exchange exports
// without a hub.
//
// Only the leader reads and writes members. Each member has its own goroutines, queues and API
// clients, so a failing or slow member delays no other. No Secret is read.
package hub
