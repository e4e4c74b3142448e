// Package network provides a lab's network namespaces, the links between them, and the plan of
// addresses.
//
// Every cluster has a slot, and with it one /16 (Plan). The node is a network namespace. Each pod
// is another namespace, joined to its node by a routed point-to-point link, so that all packets of
// a pod pass the node's kube-proxy. The node is also joined to the lab's other nodes, and to the
// namespace where the lab was started (outside). The node's link in the outside namespace reserves
// the slot.
//
// `go test ./lab/network` tests the plan. `go test -tags lab ./lab/network` tests the links, as
// root.
package network
