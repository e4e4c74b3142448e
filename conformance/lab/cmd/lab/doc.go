// Command lab starts real Kubernetes clusters on one machine, without containers, and ends them. See its --help, and the
// README.md two folders up.
//
// `lab up` writes what it was asked for to the lab's folder and starts `lab init DIR` in new PID and mount namespaces (and in
// new user and network namespaces unless it runs as root). That process is PID 1 of the lab: when it ends, the kernel ends
// everything below it, mounts and network interfaces included. It starts `lab supervise DIR`, which runs the clusters.
package main
