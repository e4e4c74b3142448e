// Package sandbox makes a process of this machine into a container: the side of package cri that runs in the new process.
//
// The process starts in fresh mount, PID, UTS and IPC namespaces and in its pod's network namespace, and calls Become with
// what cri decided (Spec). Become builds a root folder in memory: the machine's /usr, /bin and /lib below a layer of the
// container's own, an /etc, /dev, /proc and /tmp, the image's program, and the container's mounts. Then it becomes the
// program, which is PID 1 of the container.
//
// This keeps pods from seeing each other's files, ports and processes. It is no barrier to malice: a container that runs
// as root is root on this machine, unless the lab itself runs without root.
//
// It is called by cmd/lab, in a process that cri starts. It cannot be tested without a process to give away: `make test-lab` does.
package sandbox
