// Package cluster runs one Kubernetes cluster as processes: etcd, the API server, the controller manager, the scheduler and
// kube-proxy, each as it is released, and the kubelet, whose container runtime is ours (package cri).
//
// A Cluster owns the files below its folder, the processes that it starts, and the address of each Service of type
// LoadBalancer. It expects to run where everything that it starts and mounts ends with it: the command lab gives it
// namespaces of its own. A program that ends before its time ends the cluster, with the last lines of its log as the error.
//
// It is called by cmd/lab. `make test-lab` tests it: it needs root, or user namespaces, and the programs of `make lab`.
package cluster
