// Package sandbox turns a process of this machine into a container. It is the part of the runtime
// (package cri) that runs in the new process.
//
// The process starts in new mount, PID, UTS and IPC namespaces and in its pod's network namespace,
// and calls Become with a Spec from cri. Become builds a root folder in memory: the machine's /usr,
// /bin and /lib below a writable layer, an /etc, /dev, /proc and /tmp, the image's program, and the
// container's mounts. Then it executes the program, which is PID 1 of the container.
//
// Pods cannot see each other's files, ports and processes. A sandbox is no security boundary: a
// container that runs as root is root on this machine, unless the lab runs without root.
//
// Package cmd/lab calls it, in a process that cri starts. `make test-lab` tests it: a test cannot
// turn its own process into a container.
package sandbox
