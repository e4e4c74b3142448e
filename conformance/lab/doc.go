// Package lab starts real Kubernetes clusters on this machine, for tests and benchmarks, and ends
// them (Start, Down). README.md lists the parts of a cluster.
//
// It runs the command lab (cmd/lab), which `make labs` builds. A lab ends with the process that
// started it, however that process ends. The runner of the conformance suites, the benchmarks and
// the tests that need a cluster call it. `make test-lab` tests it.
package lab
