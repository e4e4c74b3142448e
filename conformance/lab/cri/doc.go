// Package cri is a container runtime for the kubelet whose containers are processes of this
// machine. It serves the CRI on a Unix socket. Probes, volumes, init containers, sidecars, hooks,
// restarts and status are the kubelet's work.
//
// A pod is a network namespace with an address of the node's range. A container is a process in its
// own mount, PID, UTS and IPC namespaces, prepared by package sandbox, that runs the program of its
// image (package image). Its output goes to the kubelet's log files. Pods end with the Server, as
// in a reboot.
//
// Unsupported features are errors: host ports, shared process namespaces, checkpoints, and kernel
// parameters other than the network's. Resource limits, capabilities and profiles only restrict
// programs, so the runtime accepts and ignores them.
//
// The Server's mutex guards its maps and the marked fields of pods and containers; no call blocks
// under it. Package cluster runs the Server. `make test-lab` tests it through a kubelet.
package cri
