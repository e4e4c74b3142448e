// Package cluster runs one Kubernetes cluster as processes: etcd, the API server, the controller
// manager, the scheduler and kube-proxy as released, and the kubelet with our container runtime
// (package cri). A Cluster must run in namespaces of its own, so that its processes and mounts end
// with it; the command lab creates the namespaces. If a program ends early, the cluster ends with
// an error.
//
// `make test-lab` tests it: that needs root or user namespaces, and the programs of `make labs`.
package cluster
