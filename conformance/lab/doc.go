// Package lab starts real Kubernetes clusters on this machine, for tests and benchmarks, and ends
// them (Start, Down). It runs the command lab (cmd/lab), which `make labs` builds. README.md lists
// the parts of a cluster.
//
// A lab ends with the process that started it, however that process ends. `make test-lab` tests it.
package lab
