// Package cri is a container runtime for the kubelet whose containers are processes of this
// machine. A pod is a network namespace with an address of the node's range. A container is a
// process in its own mount, PID, UTS and IPC namespaces. Package sandbox prepares the process,
// which then runs the program of its image (package image). Pods end with the Server, as in a
// reboot.
//
// Unsupported features are errors: host ports, shared process namespaces, checkpoints, and kernel
// parameters other than the network's. Resource limits, capabilities and profiles are ignored.
//
// Server.mu guards the Server's maps and the marked fields of pods and containers; no call blocks
// while holding the mutex. `make test-lab` tests the Server through a kubelet.
package cri
