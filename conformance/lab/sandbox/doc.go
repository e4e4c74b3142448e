// Package sandbox turns a process of this machine into a container. It is the part of the runtime
// (package cri) that runs in the new process. Become builds a root folder in memory: the machine's
// /usr, /bin and /lib below a writable layer, an /etc, /dev, /proc and /tmp, the image's program,
// and the container's mounts. Then it executes the program as PID 1.
//
// A sandbox is no security boundary: a container that runs as root is root on this machine, unless
// the lab runs without root. `make test-lab` tests it.
package sandbox
