// Package cluster runs one Kubernetes cluster as processes: etcd, the API server, the controller
// manager, the scheduler and kube-proxy as released, and the kubelet with our container runtime
// (package cri). If a program ends early, the cluster ends with an error.
//
// The command lab runs each Cluster in its own namespaces, so that processes and mounts end with
// the Cluster. `make test-lab` tests the package; it needs root or user namespaces, and the
// programs of `make labs`.
package cluster
