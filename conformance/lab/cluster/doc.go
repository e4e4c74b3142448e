// Package cluster runs one Kubernetes cluster as processes: etcd, the API server, the controller
// manager, the scheduler and kube-proxy as released, and the kubelet with our container runtime
// (package cri).
//
// A Cluster owns the files in its folder, the processes that it starts, and the addresses of
// Services of type LoadBalancer. It must run where its processes and mounts end with it: the
// command lab creates namespaces for that. A program that ends early ends the cluster; the error
// contains the last lines of its log.
//
// Package cmd/lab calls it. `make test-lab` tests it: that needs root or user namespaces, and the
// programs of `make labs`.
package cluster
