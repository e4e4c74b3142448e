// Command kubernetes is five programs of Kubernetes in one file, chosen by the name that it is called by: kube-apiserver,
// kube-controller-manager, kube-scheduler, kube-proxy and kubelet. One file links what they share once.
//
// It is a module of its own, because k8s.io/kubernetes can only be depended on by replacing its 33 staging modules by their
// releases. Nothing is changed but that the kubelet does without control groups (kubelet.go). `make lab` builds it; the
// lab's tests run it.
package main
