// Package network is the wires of a lab: network namespaces, the links between them, and the plan of addresses.
//
// Every cluster has a slot, and with it one /16 (Plan): pods, Services, LoadBalancers and the node have their parts of it. The
// node is a network namespace; each pod is one more, joined to its node by a routed point-to-point link, so that whatever
// a pod sends passes the node's kube-proxy, and pods may listen on any address and port. The node is joined to the
// namespace where the lab was started (outside), where clients run, and to the nodes of the other clusters of the lab.
//
// Namespaces have no name in any file system: they live as long as this process or a process inside them does, and the
// links go with them. The link of a slot in the outside namespace is also what reserves the slot.
//
// It is called by cmd/lab (nodes) and cri (pods). The plan is tested alone by `go test ./lab/network`, the wires by `make test-lab`.
package network
