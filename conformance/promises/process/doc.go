// Package process runs Penstock as a user does: the built binary and the real Envoy, as processes
// of this machine with a log file each. Commands, and tests in conformance/promises and
// conformance/features, use it.
//
// process.go runs a process, port.go finds free ports, binary.go finds or builds the binaries,
// envoy.go starts an Envoy. Package processtest has the common part of test rigs.
//
// Invariants: on Linux, a process ends with the process that started it; a port is assigned once.
package process
