// Command lab starts real Kubernetes clusters on one machine, without containers, and ends them.
// See conformance/lab/README.md.
//
// `lab up` starts `lab init DIR` in new PID and mount namespaces (without root, also in new user
// and network namespaces). `lab init` is PID 1 of the lab: when it ends, the kernel ends its
// processes, mounts and network interfaces. It starts `lab supervise DIR`, which runs the clusters.
package main
