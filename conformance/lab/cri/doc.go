// Package cri is a container runtime for the kubelet whose containers are processes of this machine: it serves the CRI on a
// Unix socket. Everything above it is Kubernetes' own: probes, volumes, init containers, sidecars, hooks, restarts, status.
//
// A pod is a network namespace with an address of the node's range. A container is a process in namespaces of its own, made
// by package sandbox, that runs the program its image stands for (package image). Its output goes to the kubelet's log
// files. Nothing is kept on disk: when the Server ends, its pods are gone, as after a reboot.
//
// What is not there is refused, never ignored: host ports, process namespaces that containers share, checkpoints, kernel
// parameters beyond the network's. Limits of resources, capabilities and profiles are accepted and not enforced: they keep
// a program from something, and a lab keeps it from nothing.
//
// The Server's mutex guards its maps and the fields of pods and containers that are marked so; nothing blocks under it. It
// is called by cluster. `make test-lab` tests it through a kubelet.
package cri
