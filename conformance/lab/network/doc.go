// Package network provides a lab's network namespaces, the links between them, and the plan of
// addresses.
//
// Every cluster has a slot, and with it one /16 (Plan), divided into pods, Services, LoadBalancers
// and the node. The node is a network namespace. Each pod is another namespace, joined to its node
// by a routed point-to-point link: all packets of a pod pass the node's kube-proxy, and pods may
// listen on any address and port. The node is also joined to the nodes of the lab's other clusters,
// and to the namespace where the lab was started and clients run (outside).
//
// Namespaces have no name in a file system. They and their links end with this process and the
// processes inside. The link of a slot in the outside namespace also reserves the slot.
//
// A Direction is one direction of the link between two nodes. It drops or rejects packets with
// nftables, in the namespace where they arrive, and delays them with a pair of TUN interfaces
// (wire), because some kernels lack netem, the usual queueing discipline. Delay therefore needs
// /dev/net/tun, concerns all packets of a direction, and costs CPU for each packet.
//
// Packages cmd/lab (nodes) and cri (pods) call it. `go test ./lab/network` tests the plan, `go test
// -tags lab ./lab/network` (root, without a cluster) the links with real connections.
package network
