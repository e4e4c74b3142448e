// Package network provides a lab's network namespaces, the links between them, and the plan of
// addresses.
//
// Every cluster has a number, its slot, which selects the cluster's /16 (Plan). The node is a
// network namespace. Each pod is another namespace with a routed point-to-point link to its node,
// so that all packets of a pod pass the node's kube-proxy. The node also has links to the lab's
// other nodes, and to the namespace where the lab was started (outside). The link's interface
// outside reserves the slot.
//
// `go test ./lab/network` tests the plan. `go test -tags lab ./lab/network` tests the links, as
// root.
package network
