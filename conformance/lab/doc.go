// Package lab starts real Kubernetes clusters on this machine for tests and benchmarks: Start, and Down. What a cluster
// consists of is in README.md.
//
// It drives the command lab (cmd/lab), which `make lab` builds; a lab ends with the process that started it, however that
// ends. It is called by the conformance suites' runner, bench-kube and tests that need a cluster. `make test-lab` tests it.
package lab
