// Package lab starts and ends real Kubernetes clusters on this machine, for tests and benchmarks.
// It runs the command lab (cmd/lab), which `make labs` builds. README.md lists the parts of a
// cluster.
//
// A lab ends with the process that started it, however that process ends. Test with `make
// test-lab`.
package lab
