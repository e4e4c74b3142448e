// Package network provides a lab's network namespaces, the links between them, and the plan of
// addresses.
//
// Every cluster has a slot, and with it one /16 (Plan). The node is a network namespace. Each pod
// is another namespace, joined to its node by a routed point-to-point link, so that all packets of
// a pod pass the node's kube-proxy. The node is also joined to the nodes of the lab's other
// clusters, and to the namespace where the lab was started (outside).
//
// Namespaces have no name in a file system. They and their links end with this process and the
// processes inside. The link of a slot in the outside namespace also reserves the slot.
//
// Packages cmd/lab (nodes) and cri (pods) call it. `go test ./lab/network` tests the plan, `go test
// -tags lab ./lab/network` (root, without a cluster) the links.
package network
