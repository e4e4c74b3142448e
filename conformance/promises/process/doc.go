// Package process runs Penstock as a user does: the built binary and the real Envoy, as processes
// of this machine with a log file each. Commands, and tests in conformance/promises and
// conformance/features, use it.
//
// process.go has a process, port.go free ports, binary.go finds or builds the binaries, envoy.go
// starts an Envoy. processtest has what the rigs of tests share.
//
// Invariants: where the kernel supports it, a process ends with the one that started it; a port is
// assigned once.
package process
